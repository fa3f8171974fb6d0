// An ABI for tests of bodies: handles are addresses of objects, statuses are the implementation's
// own, numbers are as constants.h has them, and a program's functions take all that as it is.
#pragma once

#include <string>

#include "mpi/core/abi.h"
#include "mpi/core/call.h"
#include "mpi/core/process.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi {

using TestOp = void (*)(const void* in, void* inout, std::int64_t count, Object* type);
using TestCopy = int (*)(Object* object, int keyval, void* state, void* value, void* copy,
                         int* wanted);
using TestDelete = int (*)(Object* object, int keyval, void* value, void* state);
using TestHandler = void (*)(Object* object, int code);

// What stands for MPI_COMM_DUP_FN and its kin.
inline void test_dup_fn() {}
inline void test_null_copy_fn() {}
inline void test_null_delete_fn() {}

inline Abi make_test_abi() {
  Abi abi{};
  abi.name = "test";
  abi.version = 5;
  abi.limits = {64, 512, 256, 1024, 256, 1024};
  abi.read_handle = [](const void* slot, Kind kind, bool* valid) {
    auto* object = *static_cast<Object* const*>(slot);
    *valid = object == nullptr || object->kind == kind;
    return *valid ? object : nullptr;
  };
  abi.write_handle = [](void* slot, Kind, Object* object) {
    *static_cast<Object**>(slot) = object;
  };
  abi.handle_bytes = [](Kind) { return sizeof(Object*); };
  abi.to_core = [](Meaning, int value) { return value; };
  abi.from_core = [](Meaning, int value) { return value; };
  abi.ignores_status = [](const void* statuses) { return statuses == nullptr; };
  abi.read_status = [](const void* statuses, std::size_t i) {
    return static_cast<const Status*>(statuses)[i];
  };
  abi.write_status = [](void* statuses, std::size_t i, const Status& status, bool with_error) {
    Status& at = static_cast<Status*>(statuses)[i];
    const int error = with_error ? status.error : at.error;
    at = status;
    at.error = error;
  };
  abi.call_op = [](Function function, bool, const void* in, void* inout, std::int64_t count,
                   Object* type) { reinterpret_cast<TestOp>(function)(in, inout, count, type); };
  abi.call_copy_attribute = [](Function function, Object* object, int keyval, void* state,
                               void* value, void** copy, int* wanted) {
    return reinterpret_cast<TestCopy>(function)(object, keyval, state, value, copy, wanted);
  };
  abi.call_delete_attribute = [](Function function, Object* object, int keyval, void* value,
                                 void* state) {
    return reinterpret_cast<TestDelete>(function)(object, keyval, value, state);
  };
  abi.call_errhandler = [](Function function, Object* object, int code) {
    reinterpret_cast<TestHandler>(function)(object, code);
  };
  abi.named_copy = [](Function function) {
    if (function == test_dup_fn) return Abi::NamedCopy::kDup;
    return function == test_null_copy_fn ? Abi::NamedCopy::kNull : Abi::NamedCopy::kNone;
  };
  abi.is_null_delete = [](Function function) { return function == test_null_delete_fn; };
  return abi;
}

inline const Abi& test_abi() {
  static const Abi abi = make_test_abi();
  return abi;
}

// A call with that ABI; its text says what was wrong.
struct TestCall : Call {
  explicit TestCall(const char* name = "MPI_Test", bool wide = false)
      : Call(test_abi(), name, wide) {}
};

// Whether the text of a call has all of these in it.
template <class... Parts>
bool says(const Call& call, const Parts&... parts) {
  return ((call.text().find(parts) != std::string::npos) && ...);
}

inline IntArray ints(const int* at) { return IntArray(test_abi(), at, false); }
inline IntArray longs(const std::int64_t* at) { return IntArray(test_abi(), at, true); }
inline OutInts out_ints(int* at) { return OutInts(test_abi(), at, false); }
inline OutInts out_longs(std::int64_t* at) { return OutInts(test_abi(), at, true); }

template <class F>
Function function(F f) {
  return reinterpret_cast<Function>(f);
}

}  // namespace holdfast::mpi
