// Packing and unpacking strided blocks. Each thread moves a unit of up to sixteen bytes, in the
// order of the packed side, so that neighbouring threads write (or read) neighbouring units there.
#include "datatype/strided.h"
#include "device/kernel_sets.h"
#include "device/memory.h"
#include "device/simt.h"

namespace holdfast::datatype {
namespace {

using device::Thread;

HOLDFAST_DEVICE std::uint32_t quotient(std::uint32_t x, const UnitDivisor& d) {
  return static_cast<std::uint32_t>((std::uint64_t{x} * d.multiplier) >> (31 + d.shift));
}

// The offset, on the strided side, of unit i of the packed side.
HOLDFAST_DEVICE std::int64_t offset_of(const StridedArgument& a, std::uint32_t i) {
  std::uint32_t rest = quotient(i, a.count[0]);
  std::int64_t offset = std::int64_t{i - rest * a.count[0].by} * a.unit_bytes;
  for (std::uint32_t d = 0; d + 1 < kMostDims; ++d) {
    const std::uint32_t outer = quotient(rest, a.count[d + 1]);
    offset += std::int64_t{rest - outer * a.count[d + 1].by} * a.stride[d];
    rest = outer;
  }
  return offset + std::int64_t{rest} * a.stride[kMostDims - 1];
}

template <class Unit, bool kPack>
HOLDFAST_DEVICE void move_units(const Thread& thread, const StridedArgument& a) {
  for (std::uint64_t i = thread.global(); i < a.units; i += thread.stride()) {
    auto* const strided =
        reinterpret_cast<Unit*>(a.strided + offset_of(a, static_cast<std::uint32_t>(i)));
    auto* const packed = reinterpret_cast<Unit*>(a.packed) + i;
    if constexpr (kPack) {
      *packed = *strided;
    } else {
      *strided = *packed;
    }
  }
}

template <bool kPack>
HOLDFAST_DEVICE void move(const Thread& thread, const StridedArgument& a) {
  switch (a.unit_bytes) {
    case 16: move_units<device::Vector, kPack>(thread, a); break;
    case 8: move_units<std::uint64_t, kPack>(thread, a); break;
    case 4: move_units<std::uint32_t, kPack>(thread, a); break;
    case 2: move_units<std::uint16_t, kPack>(thread, a); break;
    default: move_units<std::uint8_t, kPack>(thread, a);
  }
}

}  // namespace
}  // namespace holdfast::datatype

namespace holdfast {

#define STRIDED_KERNELS(KERNEL)               \
  KERNEL(holdfast_pack, datatype::move<true>) \
  KERNEL(holdfast_unpack, datatype::move<false>)

HOLDFAST_KERNELS(strided, STRIDED_KERNELS)

}  // namespace holdfast
