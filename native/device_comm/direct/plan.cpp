#include "device_comm/direct/plan.h"

#include <algorithm>
#include <numeric>

namespace holdfast::device_comm {

using comm::Collective;

namespace {

std::uint64_t sum(const std::vector<std::uint64_t>& values, std::size_t count) {
  return std::accumulate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count),
                         std::uint64_t{0});
}

std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }

// The i-th of n slices of an all_reduce.
DirectFold slice(const DirectShape& shape, std::size_t i, std::size_t n) {
  const Cut part = cut(shape.output[0], i, n);
  return {part.at, part.at, part.bytes};
}

DirectPhase fetch_blocks(const DirectShape& shape, const std::vector<Rank>& ranks) {
  DirectPhase phase;
  for (std::size_t block = 0; block < shape.output.size(); ++block) {
    const Rank from{static_cast<std::int32_t>(block)};
    const bool there = std::find(ranks.begin(), ranks.end(), from) != ranks.end();
    if (!there) {
      phase.clears.push_back(block);
      continue;
    }
    const bool spread = shape.collective == Collective::kAllToAll;
    // Blocks are equal, so this rank's block begins in others' inputs where it begins in its own.
    const std::uint64_t at = spread ? sum(shape.input, index(shape.rank)) : 0;
    phase.fetches.push_back({from, false, at, block, 0, shape.output[block]});
  }
  return phase;
}

}  // namespace

Cut cut(std::uint64_t whole, std::size_t i, std::size_t n) {
  const std::uint64_t step = aligned((whole + n - 1) / n);
  const std::uint64_t begin = std::min(whole, i * step);
  return {begin, std::min(whole, begin + step) - begin};
}

std::optional<std::uint64_t> DirectShape::input_of(Rank from) const {
  if (comm::has_own_input(collective)) return output[index(from)];
  if (!comm::input_counts(collective, from == root)) return std::nullopt;
  return sum(input, input.size());
}

DirectShape shape_of(const comm::OpRequest& request, Rank rank, int size) {
  DirectShape shape;
  shape.collective = request.collective;
  shape.element_bytes = dtype_bytes(request.dtype);
  shape.root = request.root;
  shape.rank = rank;
  shape.size = size;
  for (const comm::Block& b : request.input) shape.input.push_back(b.count * shape.element_bytes);
  for (const comm::Block& b : request.output) shape.output.push_back(b.count * shape.element_bytes);
  return shape;
}

DirectPhase direct_phase(const DirectShape& shape, const std::vector<Rank>& ranks, int number) {
  DirectPhase phase;
  const auto own = std::find(ranks.begin(), ranks.end(), shape.rank);
  const auto mine = static_cast<std::size_t>(own - ranks.begin());
  switch (shape.collective) {
    case Collective::kAllReduce:
      if (number == 0) {
        phase.fold =
            shape.in_two() ? slice(shape, mine, ranks.size()) : DirectFold{0, 0, shape.output[0]};
        return phase;
      }
      // Each rank begins with its neighbour, so that not all ranks read one rank's memory at a
      // time.
      for (std::size_t i = 1; i < ranks.size(); ++i) {
        const std::size_t other = (mine + i) % ranks.size();
        const DirectFold theirs = slice(shape, other, ranks.size());
        if (theirs.bytes == 0) continue;
        phase.fetches.push_back({ranks[other], true, theirs.at, 0, theirs.to, theirs.bytes});
      }
      return phase;
    case Collective::kReduceScatter:
      phase.fold = DirectFold{sum(shape.input, index(shape.rank)), 0, shape.output[0]};
      return phase;
    case Collective::kReduce:
      if (shape.rank == shape.root) phase.fold = DirectFold{0, 0, shape.output[0]};
      return phase;
    case Collective::kBroadcast:
      if (shape.rank != shape.root) {
        phase.fetches.push_back({shape.root, false, 0, 0, 0, shape.output[0]});
      }
      return phase;
    default: return fetch_blocks(shape, ranks);
  }
}

}  // namespace holdfast::device_comm
