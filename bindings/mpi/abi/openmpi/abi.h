// The ABI of Open MPI 4 and 5: libmpi.so.40. A handle is an address: of a predefined object that of
// an exported variable, which programs copy into their own memory, so that it is nobody's but the
// linker's to say where it lies; of another that of the object. Either's first word says where the
// object is.
#pragma once

#include <atomic>

#include "mpi/abi/export.h"
#include "mpi/abi/shared.h"
#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi::entry {

extern const Abi kAbi;

using Handle = void*;

// The first word of an exported variable; null: nobody has used it yet.
struct Predefined {
  std::atomic<Object*> object;
};

extern "C" {
HOLDFAST_MPI extern Predefined ompi_mpi_comm_null;
HOLDFAST_MPI extern Predefined ompi_mpi_datatype_null;
HOLDFAST_MPI extern Predefined ompi_mpi_group_null;
HOLDFAST_MPI extern Predefined ompi_mpi_op_null;
HOLDFAST_MPI extern Predefined ompi_request_null;
HOLDFAST_MPI extern Predefined ompi_mpi_info_null;
HOLDFAST_MPI extern Predefined ompi_mpi_errhandler_null;
HOLDFAST_MPI extern Predefined ompi_message_null;
HOLDFAST_MPI extern Predefined ompi_mpi_instance_null;
HOLDFAST_MPI extern Predefined ompi_mpi_file_null;
HOLDFAST_MPI extern Predefined ompi_mpi_win_null;
}

inline Predefined* null_handle(Kind kind) {
  switch (kind) {
    case Kind::kComm: return &ompi_mpi_comm_null;
    case Kind::kType: return &ompi_mpi_datatype_null;
    case Kind::kGroup: return &ompi_mpi_group_null;
    case Kind::kOp: return &ompi_mpi_op_null;
    case Kind::kRequest: return &ompi_request_null;
    case Kind::kInfo: return &ompi_mpi_info_null;
    case Kind::kErrhandler: return &ompi_mpi_errhandler_null;
    case Kind::kMessage: return &ompi_message_null;
    default: return &ompi_mpi_instance_null;
  }
}

// The object of a variable whose first word is still null, which is then set.
Object* first_use(Predefined* variable, Kind kind);
Handle predefined_handle(std::int32_t number);

inline std::uintptr_t bits(Handle handle) { return reinterpret_cast<std::uintptr_t>(handle); }

inline bool is_null(Handle handle, Kind kind) { return handle == null_handle(kind); }

// Null for the null handle, and for what is none of the kind.
inline Object* object_in(Handle handle, Kind kind) {
  // No object lies in the first page.
  if (bits(handle) < 4096 || bits(handle) % alignof(Object) != 0) return nullptr;
  if (is_null(handle, kind)) return nullptr;
  // Acquire: another thread may just have made it.
  auto* variable = static_cast<Predefined*>(handle);
  Object* object = variable->object.load(std::memory_order_acquire);
  if (object == nullptr) [[unlikely]]
    object = first_use(variable, kind);
  return object != nullptr && object->kind == kind ? object : nullptr;
}
inline Handle handle_out(const Object* object, Kind kind) {
  if (object == nullptr) return null_handle(kind);
  if (object->number < kFirstMade) return predefined_handle(object->number);
  return const_cast<Object*>(object);
}

inline int integer_of(Handle handle, Kind kind) {
  const Object* object = object_in(handle, kind);
  return object != nullptr ? object->number : -1;
}
inline Handle handle_of(int integer, Kind kind) {
  return handle_out(registry().find(kind, integer), kind);
}

// Of files and windows, which are not there: the null handle alone, whose integer is zero.
template <Predefined* kNull>
struct Absent {
  using Handle = void*;
  static int integer_of(Handle handle) { return handle == kNull ? 0 : -1; }
  static Handle handle_of(int /*integer*/) { return kNull; }
};
using AbsentFile = Absent<&ompi_mpi_file_null>;
using AbsentWin = Absent<&ompi_mpi_win_null>;

inline const void* buffer_in(const void* buffer) { return buffer; }
inline void* buffer_in(void* buffer) { return buffer; }
inline void* buffer_out(void* buffer) { return buffer; }
inline void* weights_in(int* weights) {
  const std::uintptr_t value = bits(weights);
  if (value != 2 && value != 3) return weights;
  return reinterpret_cast<void*>(value + 8);  // as the core has it
}
inline const void* weights_in(const int* weights) { return weights_in(const_cast<int*>(weights)); }
inline bool ignores_status(const void* statuses) { return statuses == nullptr; }

constexpr bool is_the_cores(Meaning /*meaning*/) { return false; }

int to_core(Meaning meaning, int value);
int from_core(Meaning meaning, int value);

template <Meaning kMeaning>
int in(int value) {
  if constexpr (kMeaning == Meaning::kRank || kMeaning == Meaning::kTag) {
    if (value >= 0) [[likely]]
      return value;
  }
  return to_core(kMeaning, value);
}
template <Meaning kMeaning>
int out(int value) {
  if constexpr (kMeaning == Meaning::kRank || kMeaning == Meaning::kTag) {
    if (value >= 0) [[likely]]
      return value;
  }
  return from_core(kMeaning, value);
}

struct StatusLayout {
  int source;
  int tag;
  int error;
  int cancelled;
  std::uint64_t count;  // of bytes

  std::uint64_t bytes() const { return count; }
  bool is_cancelled() const { return cancelled != 0; }
  void set(std::uint64_t bytes, bool is_cancelled) {
    count = bytes;
    cancelled = is_cancelled ? 1 : 0;
  }
};
static_assert(sizeof(StatusLayout) == 24);

}  // namespace holdfast::mpi::entry
