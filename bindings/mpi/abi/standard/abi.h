// The ABI of MPI-5: libmpi_abi.so.1. A handle is a pointer: of a predefined object its number, of
// another the object's address.
#pragma once

#include "mpi/abi/shared.h"
#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi::entry {

extern const Abi kAbi;

using Handle = void*;

inline constexpr std::int32_t null_number(Kind kind) {
  switch (kind) {
    case Kind::kComm: return kCommNull;
    case Kind::kType: return kTypeNull;
    case Kind::kGroup: return kGroupNull;
    case Kind::kOp: return kOpNull;
    case Kind::kRequest: return kRequestNull;
    case Kind::kInfo: return kInfoNull;
    case Kind::kErrhandler: return kErrhandlerNull;
    case Kind::kMessage: return kMessageNull;
    default: return kSessionNull;
  }
}

inline std::uintptr_t bits(Handle handle) { return reinterpret_cast<std::uintptr_t>(handle); }
inline Handle handle_of_number(std::int32_t number) {
  return reinterpret_cast<Handle>(static_cast<std::intptr_t>(number));
}

// Null for the null handle, and for what is none of the kind.
inline Object* object_in(Handle handle, Kind kind) {
  const std::uintptr_t value = bits(handle);
  if (value < static_cast<std::uintptr_t>(kFirstMade)) {
    return registry().find(kind, static_cast<std::int32_t>(value));
  }
  if (value % alignof(Object) != 0) return nullptr;
  auto* object = static_cast<Object*>(handle);
  return object->self == object && object->kind == kind ? object : nullptr;
}
inline bool is_null(Handle handle, Kind kind) {
  return bits(handle) == static_cast<std::uintptr_t>(null_number(kind));
}
inline Handle handle_out(const Object* object, Kind kind) {
  if (object == nullptr) return handle_of_number(null_number(kind));
  if (object->number < kFirstMade) return handle_of_number(object->number);
  return const_cast<Object*>(object);
}

inline int integer_of(Handle handle, Kind kind) {
  const Object* object = object_in(handle, kind);
  return object != nullptr ? object->number : static_cast<int>(bits(handle));
}
inline Handle handle_of(int integer, Kind kind) {
  if (integer < kFirstMade) return handle_of_number(integer);
  return handle_out(registry().find(kind, integer), kind);
}

// Of files and windows, which are not there: any handle, the null ones above all, is its value.
struct AbsentFile {
  using Handle = void*;
  static int integer_of(Handle handle) { return static_cast<int>(bits(handle)); }
  static Handle handle_of(int integer) { return handle_of_number(integer); }
};
using AbsentWin = AbsentFile;

inline const void* buffer_in(const void* buffer) { return buffer; }
inline void* buffer_in(void* buffer) { return buffer; }
inline void* buffer_out(void* buffer) { return buffer; }
inline const void* weights_in(const int* weights) { return weights; }
inline void* weights_in(int* weights) { return weights; }
inline bool ignores_status(const void* statuses) { return statuses == nullptr; }

// The core has this ABI's values, but for one that could be a block's size. What it does not know
// it therefore passes on as it is, wherever it comes from.
constexpr bool is_the_cores(Meaning meaning) { return meaning != Meaning::kDistributionArgument; }

int to_core(Meaning meaning, int value);
int from_core(Meaning meaning, int value);

template <Meaning kMeaning>
int in(int value) {
  if constexpr (is_the_cores(kMeaning)) return value;
  return to_core(kMeaning, value);
}
template <Meaning kMeaning>
int out(int value) {
  if constexpr (is_the_cores(kMeaning)) return value;
  return from_core(kMeaning, value);
}

struct StatusLayout {
  int source;
  int tag;
  int error;
  // Ours: the bytes' lower and upper half, whether cancelled.
  std::uint32_t low;
  std::uint32_t high;
  int cancelled;
  int unused[2];

  std::uint64_t bytes() const { return std::uint64_t{high} << 32 | low; }
  bool is_cancelled() const { return cancelled != 0; }
  void set(std::uint64_t bytes, bool is_cancelled) {
    low = static_cast<std::uint32_t>(bytes);
    high = static_cast<std::uint32_t>(bytes >> 32);
    cancelled = is_cancelled ? 1 : 0;
  }
};
static_assert(sizeof(StatusLayout) == 32);

}  // namespace holdfast::mpi::entry
