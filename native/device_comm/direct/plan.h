// What each rank reads of the others' device memory, and writes into its own, in an op that
// bypasses the host (direct/direct.h). Pure.
//
//   all_reduce of 2   each folds all inputs into its result               1 phase
//   all_reduce of n   each folds its slice of all inputs; then it fetches  2 phases
//                     the other slices from where they were folded
//   reduce_scatter    each folds its own block
//   reduce            the root folds all inputs
//   all_gather, all_to_all, broadcast: each fetches what is for it
//
// Bytes read and written by each rank for S bytes of all_reduce: (n + 1) S in one phase,
// ((n + 1) / n + 2 (n - 1) / n) S in two, and 2 S more where the result replaces the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::device_comm {

// An op as one rank sees it.
struct DirectShape {
  comm::Collective collective{};
  std::uint64_t element_bytes = 1;
  Rank root{};
  Rank rank{};
  int size = 0;
  std::vector<std::uint64_t> input;   // bytes of each block
  std::vector<std::uint64_t> output;  // bytes of each block

  // A second phase follows, in which others read this rank's result.
  bool in_two() const { return collective == comm::Collective::kAllReduce && size > 2; }
  // Votes that the phases end with.
  std::size_t votes() const { return in_two() ? 2 : 1; }
  // Whether others read this rank's input.
  bool gives() const { return comm::input_counts(collective, rank == root); }
  // Bytes of input that `from` must have for this rank; nothing: any number.
  std::optional<std::uint64_t> input_of(Rank from) const;
};

DirectShape shape_of(const comm::OpRequest& request, Rank rank, int size);

// Copies bytes of another rank's memory to this rank's output block.
struct DirectFetch {
  Rank from;
  bool of_result = false;  // else of its input
  std::uint64_t at = 0;
  std::size_t block = 0;
  std::uint64_t to = 0;  // in the block
  std::uint64_t bytes = 0;
};
// Folds the same bytes of all inputs into output block 0.
struct DirectFold {
  std::uint64_t at = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes = 0;
};
struct DirectPhase {
  std::optional<DirectFold> fold;
  std::vector<DirectFetch> fetches;
  std::vector<std::size_t> clears;  // output blocks for which no rank has data
};

// Cuts begin at a multiple of this many bytes: vectors of kernels, and lines of the cache.
inline constexpr std::uint64_t kCutAlignment = 512;
inline std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kCutAlignment - 1) / kCutAlignment * kCutAlignment;
}

// The i-th of n runs that a vector is cut into, nearly equal, the last ones shorter or empty: each
// begins at whole elements of every dtype.
struct Cut {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::uint64_t end() const { return at + bytes; }
  friend bool operator==(const Cut&, const Cut&) = default;
};
Cut cut(std::uint64_t whole, std::size_t i, std::size_t n);

// `ranks`: those whose data there is, rising, this one among them. `number`: 0, or 1 with in_two().
DirectPhase direct_phase(const DirectShape& shape, const std::vector<Rank>& ranks, int number);

}  // namespace holdfast::device_comm
