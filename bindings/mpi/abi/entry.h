// What entry points are made of, after the ABI's own abi.h: conversions by class, and the ways out
// of a call whose arguments are none. The fast way takes no branch that is not an argument's.
#pragma once

#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "mpi/abi/export.h"
#include "mpi/core/call.h"
#include "mpi/core/refuse.h"

namespace holdfast::mpi::entry {

template <class T>
T* object_in(Handle handle) {
  return as<T>(object_in(handle, kKindOf<T>));
}
template <class T>
Handle handle_out(T* object) {
  return handle_out(object_of(object), kKindOf<T>);
}
template <class T>
bool is_null(Handle handle) {
  return is_null(handle, kKindOf<T>);
}
template <class T>
int integer_of(Handle handle) {
  return integer_of(handle, kKindOf<T>);
}
template <class T>
Handle handle_of(int integer) {
  return handle_of(integer, kKindOf<T>);
}

inline std::string_view text_in(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

struct NamedStatus {
  const char* name;
  const void* at;
};
struct NamedStatusOut {
  const char* name;
  void* at;
};
// Statuses of Fortran's two bindings lie as C's do, in all three ABIs.
inline int copy_status(Call& call, NamedStatus from, NamedStatusOut to) {
  const char* ignored = ignores_status(from.at) ? from.name
                        : ignores_status(to.at) ? to.name
                                                : nullptr;
  if (ignored != nullptr) {
    const std::string text = " is MPI_STATUS_IGNORE or null, accepted are statuses";
    return call.end(call.fail(kErrArg, ignored + text), nullptr);
  }
  std::memcpy(to.at, from.at, sizeof(StatusLayout));
  return kSuccess;
}

// A number that an `int` cannot say is undefined.
inline int narrow(std::int64_t value) {
  const bool fits =
      value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max();
  return fits ? static_cast<int>(value) : kUndefined;
}

inline Asked asked_handle(Kind kind, const char* name, Handle handle, bool nullable) {
  const bool null = is_null(handle, kind);
  const bool refused = object_in(handle, kind) == nullptr && !(null && nullable);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &handle, sizeof handle);
  return {kind, name, refused, null, bits};
}
template <class T>
Asked asked(const char* name, Handle handle, bool nullable) {
  return asked_handle(kKindOf<T>, name, handle, nullable);
}
inline Asked asked(const char* name, const void* address) {
  return {Kind::kFreed, name, address == nullptr, true, 0};
}
template <class T>
Asked asked_at(const char* name, const Handle* at, bool nullable) {
  if (at == nullptr) return asked(name, static_cast<const void*>(nullptr));
  return asked_handle(kKindOf<T>, name, *at, nullable);
}

}  // namespace holdfast::mpi::entry
