// Packing and unpacking blocks at listed places. Each thread moves a unit of up to sixteen bytes,
// in the order of the packed side, and finds its block by bisection: threads of a warp look at the
// same entries but for the last steps, so that the list comes from the cache.
#include "datatype/block_list.h"
#include "device/kernel_sets.h"
#include "device/memory.h"
#include "device/simt.h"

namespace holdfast::datatype {
namespace {

using device::Thread;

// The last block that begins at or before a byte of a turn.
HOLDFAST_DEVICE std::uint64_t block_of(const BlockListArgument& a, std::uint64_t byte) {
  std::uint64_t low = 0;
  std::uint64_t high = a.blocks;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (a.before[middle] <= byte) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

HOLDFAST_DEVICE std::int64_t place_of(const BlockListArgument& a, std::uint64_t packed) {
  const std::uint64_t turn = packed / a.turn_bytes;
  const std::uint64_t byte = packed - turn * a.turn_bytes;
  const std::uint64_t block = block_of(a, byte);
  return static_cast<std::int64_t>(turn) * a.stride + a.offsets[block] +
         static_cast<std::int64_t>(byte - a.before[block]);
}

template <class Unit, bool kPack>
HOLDFAST_DEVICE void move_listed(const Thread& thread, const BlockListArgument& a) {
  for (std::uint64_t i = thread.global(); i < a.units; i += thread.stride()) {
    auto* const strided =
        reinterpret_cast<Unit*>(a.strided + place_of(a, a.first + i * sizeof(Unit)));
    auto* const packed = reinterpret_cast<Unit*>(a.packed) + i;
    if constexpr (kPack) {
      *packed = *strided;
    } else {
      *strided = *packed;
    }
  }
}

template <bool kPack>
HOLDFAST_DEVICE void move_list(const Thread& thread, const BlockListArgument& a) {
  switch (a.unit_bytes) {
    case 16: move_listed<device::Vector, kPack>(thread, a); break;
    case 8: move_listed<std::uint64_t, kPack>(thread, a); break;
    case 4: move_listed<std::uint32_t, kPack>(thread, a); break;
    case 2: move_listed<std::uint16_t, kPack>(thread, a); break;
    default: move_listed<std::uint8_t, kPack>(thread, a);
  }
}

}  // namespace
}  // namespace holdfast::datatype

namespace holdfast {

#define BLOCK_LIST_KERNELS(KERNEL)                      \
  KERNEL(holdfast_pack_list, datatype::move_list<true>) \
  KERNEL(holdfast_unpack_list, datatype::move_list<false>)

HOLDFAST_KERNELS(block_list, BLOCK_LIST_KERNELS)

}  // namespace holdfast
