// BlockList: a layout as one element's list of blocks, and how often it is repeated at one stride:
// what a device packs layouts from that are no nest of up to four strides (strided.h). The lists
// lie in memory that the device reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "datatype/layout.h"
#include "datatype/strided.h"
#include "device/kernel.h"

namespace holdfast::datatype {

// 16 bytes each on the device.
inline constexpr std::uint64_t kMostListedBlocks = std::uint64_t{1} << 20;

struct BlockList {
  std::vector<std::int64_t> offsets;  // of the blocks, from the first byte of their turn
  std::vector<std::uint64_t> before;  // packed bytes before each block, and before the end
  std::int64_t stride = 0;            // from turn to turn
  std::uint64_t turns = 0;
  std::int64_t origin = 0;  // the first byte, from the buffer's displacement zero

  std::uint64_t bytes() const { return turns * before.back(); }
};
// Returns kUnsupported above kMostListedBlocks blocks in a turn, kConfigError for a count that
// Packer refuses.
Result<BlockList> block_list(const TypeLayout& layout, std::int64_t count);

// The same memory as strided blocks, where it is up to four loops over a block.
struct PlacedStrided {
  Strided shape;
  std::int64_t origin = 0;
};
Result<std::optional<PlacedStrided>> as_strided(const TypeLayout& layout, std::int64_t count);

// Bytes [first, first + units * unit_bytes) of the packed form, to or from `packed`.
struct BlockListArgument {
  std::byte* strided;  // the first byte of turn 0
  std::byte* packed;
  const std::int64_t* offsets;
  const std::uint64_t* before;
  std::uint64_t blocks;
  std::uint64_t turn_bytes;
  std::int64_t stride;
  std::uint64_t first;
  std::uint64_t units;
  std::uint32_t unit_bytes;  // 1, 2, 4, 8 or 16: what all of it is a multiple of
};
// What a list and its range are packed between; `base` is the buffer's displacement zero, and the
// lists are those of `list`, or copies that the device reads.
struct BlockListMemory {
  std::byte* base;
  std::byte* packed;
  const std::int64_t* offsets;
  const std::uint64_t* before;
};
BlockListArgument block_list_argument(const BlockList& list, const BlockListMemory& memory,
                                      std::uint64_t first, std::uint64_t bytes);

const device::KernelRow& pack_list_kernel();
const device::KernelRow& unpack_list_kernel();
// The kernels' references.
void pack_list(const BlockListArgument& argument);
void unpack_list(const BlockListArgument& argument);

}  // namespace holdfast::datatype
