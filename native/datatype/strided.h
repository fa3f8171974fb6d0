// Strided: memory that is not contiguous, in one canonical form: blocks of bytes at up to four
// strides. Packing puts the blocks one behind the other, in the order of the indices, of which the
// last changes fastest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "device/kernel.h"

namespace holdfast::datatype {

inline constexpr std::uint32_t kMostDims = 4;

struct Strided {
  std::uint64_t block_bytes = 0;
  std::array<std::uint64_t, kMostDims> count{1, 1, 1, 1};
  std::array<std::int64_t, kMostDims> stride{};  // bytes; may be negative or zero

  std::uint64_t blocks() const { return count[0] * count[1] * count[2] * count[3]; }
  std::uint64_t bytes() const { return blocks() * block_bytes; }
};

// The same memory in fewer dimensions and larger blocks, where possible: that makes copies fewer
// and longer.
Strided canonical(const Strided& shape);

// Pack and unpack on the CPU. `strided` is the address of block (0, 0, 0, 0).
void pack(const Strided& shape, const std::byte* strided, std::byte* packed);
void unpack(const Strided& shape, const std::byte* packed, std::byte* strided);

// UnitDivisor divides by a count without a division. StridedArgument, for holdfast_pack and
// holdfast_unpack, is a shape in units of 1, 2, 4, 8 or 16 bytes with such divisors for its counts.
struct UnitDivisor {
  std::uint32_t by;
  std::uint32_t multiplier;
  std::uint32_t shift;
};
struct StridedArgument {
  std::byte* strided;
  std::byte* packed;
  std::uint32_t units;  // below kMostUnits
  std::uint32_t unit_bytes;
  // Units per block, then counts from the innermost on; the outermost count follows from `units`.
  UnitDivisor count[kMostDims];
  std::int64_t stride[kMostDims];
};
inline constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 31;

const device::KernelRow& pack_kernel();
const device::KernelRow& unpack_kernel();
// Returns kUnsupported for kMostUnits units or more: the caller must then take slices of the
// outermost dimension.
Result<StridedArgument> strided_argument(const Strided& shape, std::byte* strided,
                                         std::byte* packed);

}  // namespace holdfast::datatype
