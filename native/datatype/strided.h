// Memory that is not contiguous, in one canonical form: blocks of bytes at up to four strides.
// Packing puts the blocks one behind the other, in the order of the indices, the last one fastest.
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
  std::array<std::int64_t, kMostDims> stride{};  // bytes; negative ones and zero will do

  std::uint64_t blocks() const { return count[0] * count[1] * count[2] * count[3]; }
  std::uint64_t bytes() const { return blocks() * block_bytes; }
};

// The same memory in fewer dimensions and larger blocks, where that can be: fewer, longer copies.
Strided canonical(const Strided& shape);

// The CPU's. `strided` is the address of block (0, 0, 0, 0).
void pack(const Strided& shape, const std::byte* strided, std::byte* packed);
void unpack(const Strided& shape, const std::byte* packed, std::byte* strided);

// Argument of holdfast_pack and holdfast_unpack: a shape in units of 1, 2, 4, 8 or 16 bytes, and
// what divides by its counts.
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
  // Units to a block, then from the innermost count on; the outermost is what is left.
  UnitDivisor count[kMostDims];
  std::int64_t stride[kMostDims];
};
inline constexpr std::uint64_t kMostUnits = std::uint64_t{1} << 31;

const device::KernelRow& pack_kernel();
const device::KernelRow& unpack_kernel();
// Code::kUnsupported for more than kMostUnits units: take slices of the outermost dimension.
Result<StridedArgument> strided_argument(const Strided& shape, std::byte* strided,
                                         std::byte* packed);

}  // namespace holdfast::datatype
