// The ABI of MPICH and its kin: libmpi.so.12. A handle is an integer: two bits say how it is
// stored, four of which kind it is, the rest which one; of a predefined object as the header has it
// (handles.table), of another kStored, the kind and the object's number.
#pragma once

#include "mpi/abi/shared.h"
#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi::entry {

extern const Abi kAbi;

using Handle = int;

// What MPICH calls indirect.
inline constexpr std::uint32_t kStored = 3;
inline constexpr int kKindShift = 26;
inline constexpr std::uint32_t kNumberMask = (1U << kKindShift) - 1;

inline constexpr std::uint32_t kind_bits(Kind kind) {
  switch (kind) {
    case Kind::kComm: return 0x1;
    case Kind::kGroup: return 0x2;
    case Kind::kType: return 0x3;
    case Kind::kErrhandler: return 0x5;
    case Kind::kOp: return 0x6;
    case Kind::kInfo: return 0x7;
    case Kind::kSession: return 0xe;
    default:  // requests and messages
      return 0xb;
  }
}

// The number of a predefined object; negative: it is none.
std::int32_t predefined_number(Handle handle, Kind kind);
Handle predefined_handle(std::int32_t number);

// Null for the null handle, and for what is none of the kind.
inline Object* object_in(Handle handle, Kind kind) {
  const auto value = static_cast<std::uint32_t>(handle);
  if (value >> kKindShift == (kStored << 4 | kind_bits(kind))) {
    return registry().find(kind, static_cast<std::int32_t>(value & kNumberMask));
  }
  const std::int32_t number = predefined_number(handle, kind);
  return number < 0 ? nullptr : registry().find(kind, number);
}
inline bool is_null(Handle handle, Kind kind) {
  return static_cast<std::uint32_t>(handle) == kind_bits(kind) << kKindShift;
}
inline Handle handle_out(const Object* object, Kind kind) {
  const std::uint32_t of = kind_bits(kind) << kKindShift;
  if (object == nullptr) return static_cast<Handle>(of);
  if (object->number < kFirstMade) return predefined_handle(object->number);
  return static_cast<Handle>(kStored << 30 | of | static_cast<std::uint32_t>(object->number));
}

// MPICH's header makes integers of handles without a call.
inline int integer_of(Handle handle, Kind) { return handle; }
inline Handle handle_of(int integer, Kind) { return integer; }

// Of files and windows, which are not there: any handle, the null ones above all, is its value.
struct AbsentFile {
  using Handle = void*;
  static int integer_of(Handle handle) {
    return static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
  }
  static Handle handle_of(int integer) {
    return reinterpret_cast<Handle>(static_cast<std::intptr_t>(integer));
  }
};
struct AbsentWin {
  using Handle = int;
  static int integer_of(Handle handle) { return handle; }
  static Handle handle_of(int integer) { return integer; }
};

inline void* buffer_in(void* buffer) {
  const auto value = reinterpret_cast<std::intptr_t>(buffer);
  if (value != -1 && value != -2) [[likely]]
    return buffer;
  return reinterpret_cast<void*>(-value);  // in place: 1; automatic: 2
}
inline const void* buffer_in(const void* buffer) { return buffer_in(const_cast<void*>(buffer)); }
inline void* buffer_out(void* buffer) {
  const auto value = reinterpret_cast<std::intptr_t>(buffer);
  return value == 1 || value == 2 ? reinterpret_cast<void*>(-value) : buffer;
}
// MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are variables of the library, which have the core's values.
inline const void* weights_in(const int* weights) { return weights; }
inline void* weights_in(int* weights) { return weights; }
inline bool ignores_status(const void* statuses) {
  return reinterpret_cast<std::uintptr_t>(statuses) <= 1;
}

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
  std::uint32_t low;  // of the bytes
  std::uint32_t high_and_cancelled;
  int source;
  int tag;
  int error;

  std::uint64_t bytes() const { return std::uint64_t{high_and_cancelled >> 1} << 32 | low; }
  bool is_cancelled() const { return (high_and_cancelled & 1) != 0; }
  void set(std::uint64_t bytes, bool is_cancelled) {
    low = static_cast<std::uint32_t>(bytes);
    high_and_cancelled = static_cast<std::uint32_t>(bytes >> 32) << 1 | (is_cancelled ? 1U : 0U);
  }
};
static_assert(sizeof(StatusLayout) == 20);

}  // namespace holdfast::mpi::entry
