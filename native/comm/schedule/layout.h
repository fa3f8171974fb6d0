// Layout: binds the chunks of a schedule to the caller's blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/short_list.h"
#include "comm/schedule/schedule.h"

namespace holdfast::comm {

// A contiguous run of `count` elements. Inputs are never written through.
struct Block {
  std::byte* data = nullptr;
  std::uint64_t count = 0;  // elements
};

// The blocks of one side of an op: one, or one per rank.
using BlockList = ShortList<Block, 8>;

// The elements of all blocks together.
inline std::uint64_t elements(const BlockList& blocks) {
  std::uint64_t sum = 0;
  for (const Block& block : blocks) sum += block.count;
  return sum;
}

struct Layout {
  std::vector<Block> input;   // by chunk; chunks that do not exist on this rank have count 0
  std::vector<Block> output;  // by chunk
  std::vector<std::uint64_t> scratch;  // by chunk: elements of the chunk that it stands in for
  std::uint64_t scratch_elements = 0;  // their sum
};

// Cuts or assigns the caller's blocks (see collective.h for how many) to the schedule's chunks.
// A block cut into K chunks is cut nearly equally, the first ones longer by one element, or by the
// schedule's shares; boundaries are rounded to 64-byte multiples where the block is long enough to
// give every chunk that much.
Layout make_layout(const Schedule& schedule, const BlockList& input, const BlockList& output,
                   std::size_t element_bytes);
// Makes the same layout in `into`, whose memory is reused.
void make_layout(const Schedule& schedule, const BlockList& input, const BlockList& output,
                 std::size_t element_bytes, Layout& into);

}  // namespace holdfast::comm
