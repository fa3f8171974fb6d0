#include "comm/schedule/layout.h"

#include <algorithm>

namespace holdfast::comm {
namespace {

constexpr std::uint64_t kLine = 64;

// Elements of each of `chunks` pieces of `count`.
std::vector<std::uint64_t> cut(std::uint64_t count, std::uint32_t chunks, std::size_t element) {
  // Whole cache lines when every chunk gets at least one: no two ranks then reduce into one line.
  const std::uint64_t unit =
      count * element >= chunks * kLine ? std::max<std::uint64_t>(1, kLine / element) : 1;
  const std::uint64_t units = count / unit;
  std::vector<std::uint64_t> sizes(chunks);
  std::uint64_t given = 0;
  for (std::uint32_t i = 0; i < chunks; ++i) {
    sizes[i] = (units / chunks + (i < units % chunks ? 1 : 0)) * unit;
    given += sizes[i];
  }
  if (chunks > 0) sizes.back() += count - given;
  return sizes;
}

std::vector<Block> cut_block(const Block& block, std::uint32_t chunks, std::size_t element) {
  std::vector<Block> pieces;
  std::byte* at = block.data;
  for (const std::uint64_t count : cut(block.count, chunks, element)) {
    pieces.push_back({at, count});
    if (at != nullptr) at += count * element;
  }
  return pieces;
}

bool has_single_input(Collective c) {
  return c == Collective::kAllGather || c == Collective::kGather;
}

bool has_single_output(Collective c) {
  return c == Collective::kReduceScatter || c == Collective::kScatter;
}

std::vector<Block> place(const Schedule& schedule, const std::vector<Block>& blocks, bool single,
                         std::size_t element) {
  const std::uint32_t chunks = schedule.chunks;
  if (blocks.empty()) return std::vector<Block>(chunks);
  const std::uint32_t pieces = schedule.pieces;
  if (single) {
    std::vector<Block> placed(chunks);
    const std::vector<Block> own = cut_block(blocks[0], pieces, element);
    const auto at = std::ptrdiff_t{schedule.rank.value} * static_cast<std::ptrdiff_t>(pieces);
    std::copy(own.begin(), own.end(), placed.begin() + at);
    return placed;
  }
  if (!has_blocks_by_rank(schedule.collective) && chunks != 1) {
    return cut_block(blocks[0], chunks, element);
  }
  CHECK(blocks.size() * pieces == chunks);
  if (pieces == 1) return blocks;
  std::vector<Block> placed;
  placed.reserve(chunks);
  for (const Block& block : blocks) {
    const std::vector<Block> cuts = cut_block(block, pieces, element);
    placed.insert(placed.end(), cuts.begin(), cuts.end());
  }
  return placed;
}

}  // namespace

Layout make_layout(const Schedule& schedule, const std::vector<Block>& input,
                   const std::vector<Block>& output, std::size_t element_bytes) {
  Layout layout;
  layout.input = place(schedule, input, has_single_input(schedule.collective), element_bytes);
  layout.output = place(schedule, output, has_single_output(schedule.collective), element_bytes);
  for (const auto& [like, form] : schedule.scratch) {
    const auto& space = like.space == Space::kInput ? layout.input : layout.output;
    // Zero-byte tokens (barrier) stand in for no chunk.
    const std::uint64_t count = like.chunk < space.size() ? space[like.chunk].count : 0;
    layout.scratch.push_back(count);
    layout.scratch_elements += count;
  }
  return layout;
}

}  // namespace holdfast::comm
