#include "comm/schedule/layout.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/cache_line.h"

namespace holdfast::comm {
namespace {

// Calls visit(elements) for each of `chunks` pieces of `count`.
template <class Visit>
void cut(std::uint64_t count, std::uint32_t chunks, std::size_t element, Visit visit) {
  // Chunks are whole cache lines if each gets at least one: no two ranks then reduce into the same
  // line.
  const std::uint64_t unit =
      count * element >= chunks * kCacheLine ? std::max<std::uint64_t>(1, kCacheLine / element) : 1;
  const std::uint64_t units = count / unit;
  std::uint64_t given = 0;
  for (std::uint32_t i = 0; i < chunks; ++i) {
    const std::uint64_t size = (units / chunks + (i < units % chunks ? 1 : 0)) * unit;
    given += size;
    visit(i + 1 == chunks ? size + count - given : size);
  }
}

// As cut(), by shares.
template <class Visit>
void cut_by(std::uint64_t count, std::span<const std::uint32_t> shares, std::size_t element,
            Visit visit) {
  const std::uint64_t unit = count * element >= shares.size() * kCacheLine
                                 ? std::max<std::uint64_t>(1, kCacheLine / element)
                                 : 1;
  const std::uint64_t whole = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  const std::uint64_t units = count / unit;
  std::uint64_t before = 0;
  std::uint64_t given = 0;
  for (const std::uint32_t share : shares) {
    before += share;
    // Of what is far more than the shares' sum, whole parts first: nothing overflows.
    const std::uint64_t part = units / whole * before + units % whole * before / whole;
    const std::uint64_t end = before == whole ? count : part * unit;
    visit(end - given);
    given = end;
  }
}

// Appends the pieces of a block.
void cut_block(const Block& block, std::uint32_t chunks, std::span<const std::uint32_t> shares,
               std::size_t element, std::vector<Block>& into) {
  std::byte* at = block.data;
  const auto add = [&](std::uint64_t count) {
    into.push_back({at, count});
    if (at != nullptr) at += count * element;
  };
  if (shares.empty()) {
    cut(block.count, chunks, element, add);
  } else {
    cut_by(block.count, shares, element, add);
  }
}

void place(const Schedule& schedule, const BlockList& blocks, bool single, std::size_t element,
           std::vector<Block>& into) {
  const std::uint32_t chunks = schedule.chunks;
  into.clear();
  if (blocks.empty()) return into.resize(chunks);
  const std::uint32_t pieces = schedule.pieces;
  const auto shares_of = [&](std::size_t block) {
    const std::span<const std::uint32_t> all = schedule.shares;
    return all.empty() ? all : all.subspan(block * pieces, pieces);
  };
  if (single) {
    const auto own = static_cast<std::size_t>(schedule.rank.value);
    into.resize(own * pieces);
    cut_block(blocks[0], pieces, shares_of(own), element, into);
    return into.resize(chunks);
  }
  if (!has_blocks_by_rank(schedule.collective) && chunks != 1) {
    return cut_block(blocks[0], chunks, schedule.shares, element, into);
  }
  CHECK(blocks.size() * pieces == chunks);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    cut_block(blocks[i], pieces, shares_of(i), element, into);
  }
}

}  // namespace

void make_layout(const Schedule& schedule, const BlockList& input, const BlockList& output,
                 std::size_t element_bytes, Layout& into) {
  place(schedule, input, has_own_input(schedule.collective), element_bytes, into.input);
  place(schedule, output, has_own_output(schedule.collective), element_bytes, into.output);
  into.scratch.clear();
  into.scratch_elements = 0;
  for (const auto& [like, form] : schedule.scratch) {
    const auto& space = like.space == Space::kInput ? into.input : into.output;
    // Zero-byte tokens (barrier) stand in for no chunk.
    const std::uint64_t count = like.chunk < space.size() ? space[like.chunk].count : 0;
    into.scratch.push_back(count);
    into.scratch_elements += count;
  }
}

Layout make_layout(const Schedule& schedule, const BlockList& input, const BlockList& output,
                   std::size_t element_bytes) {
  Layout layout;
  make_layout(schedule, input, output, element_bytes, layout);
  return layout;
}

}  // namespace holdfast::comm
