#include "mpi/abi/mpich/abi.h"

#include <array>

#include "mpi/abi/export.h"
#include "mpi/core/call.h"
#include "mpi_values.h"

// What programs bind by these names. Both are read by the program alone, which passes them on.
extern "C" {
HOLDFAST_MPI extern int* const MPI_UNWEIGHTED;
HOLDFAST_MPI extern int* const MPI_WEIGHTS_EMPTY;
HOLDFAST_MPI extern int* MPI_F_STATUS_IGNORE;
HOLDFAST_MPI extern int* MPI_F_STATUSES_IGNORE;
HOLDFAST_MPI int MPIR_Dup_fn(int, int, void*, void* value, void* copy, int* flag);

int* const MPI_UNWEIGHTED = static_cast<int*>(holdfast::mpi::kUnweighted);
int* const MPI_WEIGHTS_EMPTY = static_cast<int*>(holdfast::mpi::kWeightsEmpty);
int* MPI_F_STATUS_IGNORE = reinterpret_cast<int*>(1);
int* MPI_F_STATUSES_IGNORE = reinterpret_cast<int*>(1);

int MPIR_Dup_fn(int, int, void*, void* value, void* copy, int* flag) {
  *static_cast<void**>(copy) = value;
  *flag = 1;
  return 0;
}
}

namespace holdfast::mpi::entry {
namespace {

Abi::NamedCopy named_copy(Function function) {
  if (function == nullptr) return Abi::NamedCopy::kNull;
  return function == reinterpret_cast<Function>(MPIR_Dup_fn) ? Abi::NamedCopy::kDup
                                                             : Abi::NamedCopy::kNone;
}
bool is_null_delete(Function function) { return function == nullptr; }

// Handles of predefined objects differ in their lowest byte within a kind; those of pairs of
// unequal types, which MPICH makes when it starts, have a space of their own.
constexpr std::size_t kIndices = 256;
constexpr std::uint32_t kPairs = 0x8c000000;
constexpr std::size_t kPairTypes = 5;

struct Slot {
  Handle handle = 0;
  std::int32_t number = -1;
};

constexpr std::uint32_t bits(Handle handle) { return static_cast<std::uint32_t>(handle); }
constexpr bool is_pair(Handle handle) { return bits(handle) - kPairs < kPairTypes; }

constexpr auto slots(Kind kind) {
  std::array<Slot, kIndices> made{};
  for (const HandleRow& row : kHandles) {
    if (row.kind == kind && bits(row.handle) >> 30 == 1) {
      made[bits(row.handle) % kIndices] = {row.handle, row.number};
    }
  }
  return made;
}
constexpr auto kTypes = slots(Kind::kType);

constexpr auto pairs() {
  std::array<std::int32_t, kPairTypes> made{};
  for (const HandleRow& row : kHandles) {
    if (row.kind == Kind::kType && is_pair(row.handle)) {
      made[bits(row.handle) - kPairs] = row.number;
    }
  }
  return made;
}
constexpr auto kPairNumbers = pairs();

constexpr auto handles() {
  std::array<Handle, kFirstMade> made{};
  for (const HandleRow& row : kHandles) made[static_cast<std::size_t>(row.number)] = row.handle;
  return made;
}
constexpr auto kHandleOf = handles();

constexpr bool indices_differ() {
  for (const HandleRow& row : kHandles) {
    if (row.kind != Kind::kType || bits(row.handle) >> 30 != 1) continue;
    if (kTypes[bits(row.handle) % kIndices].handle != row.handle) return false;
  }
  return true;
}
static_assert(indices_differ());

constexpr bool null_handles_follow_from_kinds() {
  for (const HandleRow& row : kHandles) {
    if (bits(row.handle) >> 30 == 0 && bits(row.handle) != kind_bits(row.kind) << kKindShift) {
      return false;
    }
  }
  return true;
}
static_assert(null_handles_follow_from_kinds());

}  // namespace

std::int32_t predefined_number(Handle handle, Kind kind) {
  if (kind == Kind::kType) {
    if (is_pair(handle)) return kPairNumbers[bits(handle) - kPairs];
    const Slot& slot = kTypes[bits(handle) % kIndices];
    return slot.handle == handle ? slot.number : -1;
  }
  for (const HandleRow& row : kHandles) {
    if (row.kind == kind && row.handle == handle && bits(handle) >> 30 == 1) return row.number;
  }
  return -1;
}

Handle predefined_handle(std::int32_t number) {
  return kHandleOf[static_cast<std::size_t>(number)];
}

}  // namespace holdfast::mpi::entry

#include "mpi/abi/functions.h"

namespace holdfast::mpi::entry {

const Abi kAbi = abi_named("mpich", -1, -1);

}  // namespace holdfast::mpi::entry
