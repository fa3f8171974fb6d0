// Collectives: what each one asks of its blocks. All code that needs a fact about a collective
// reads this one table. How a collective works is elsewhere, in schedules and repairs. A block is a
// run of elements owned by the caller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast::comm {

// n = size of the communicator, r = own rank.
enum class Collective : std::uint8_t {
  kAllReduce,      // output = sum over ranks of input
  kReduceScatter,  // output at r = sum over ranks of input[r]
  kAllGather,      // output[s] = input of rank s
  kAllToAll,       // output[s] at r = input[r] of rank s
  kBroadcast,      // output = input of root (at the root input and output are one buffer)
  kReduce,         // output at root = sum over ranks; no output elsewhere
  kGather,         // output[s] at root = input of rank s; no output elsewhere
  kScatter,        // output at r = input[r] of root; no input elsewhere
  kBarrier,
  kSend,  // to kRecv: matched by (peer, tag) in program order
  kRecv,
  kScan,    // output at r = sum over ranks 0 to r of input
  kExscan,  // output at r = sum over ranks 0 to r - 1 of input; rank 0's is left as it is
};
inline constexpr int kCollectiveCount = static_cast<int>(Collective::kExscan) + 1;  // the last one

enum class BlockCount : std::uint8_t { kNone, kOne, kPerRank };

struct BlockSide {
  BlockCount count = BlockCount::kNone;
  bool at_root_only = false;  // the other ranks have none
};

// What sets one rank, the root, apart from the others: only its input counts, or only it has a
// result.
enum class RootRole : std::uint8_t { kNone, kGives, kTakes };

// The side that has the same number of elements at all ranks.
enum class CommonSide : std::uint8_t { kNone, kInput, kOutput };

struct CollectiveFacts {
  Collective collective{};
  std::string_view name{};
  BlockSide input{};
  BlockSide output{};
  CommonSide common = CommonSide::kNone;
  bool common_if_equal = false;  // only where blocks are known to be equal
  RootRole root = RootRole::kNone;
  bool reduces = false;     // elements are combined
  bool replicated = false;  // all members have the same result: one that holds it serves the others
  bool in_place = true;     // a caller may pass one buffer as input and output
  bool point_to_point = false;  // between two ranks
};

// Not in place: once a rank has its result, the ranks behind it may still need its input.
constexpr CollectiveFacts scan_facts(Collective collective, std::string_view name) {
  return {.collective = collective,
          .name = name,
          .input = {BlockCount::kOne},
          .output = {BlockCount::kOne},
          .common = CommonSide::kInput,
          .reduces = true,
          .in_place = false};
}

inline constexpr std::array<CollectiveFacts, kCollectiveCount> kCollectives{{
    {.collective = Collective::kAllReduce,
     .name = "all_reduce",
     .input = {BlockCount::kOne},
     .output = {BlockCount::kOne},
     .common = CommonSide::kInput,
     .reduces = true,
     .replicated = true},
    {.collective = Collective::kReduceScatter,
     .name = "reduce_scatter",
     .input = {BlockCount::kPerRank},
     .output = {BlockCount::kOne},
     .common = CommonSide::kInput,
     .reduces = true},
    {.collective = Collective::kAllGather,
     .name = "all_gather",
     .input = {BlockCount::kOne},
     .output = {BlockCount::kPerRank},
     .common = CommonSide::kOutput,
     .replicated = true},
    // Not in place: a block would be overwritten by the one that replaces it before it was sent.
    {.collective = Collective::kAllToAll,
     .name = "all_to_all",
     .input = {BlockCount::kPerRank},
     .output = {BlockCount::kPerRank},
     .common = CommonSide::kInput,
     .common_if_equal = true,
     .in_place = false},
    {.collective = Collective::kBroadcast,
     .name = "broadcast",
     .input = {BlockCount::kOne},
     .output = {BlockCount::kOne},
     .common = CommonSide::kInput,
     .root = RootRole::kGives,
     .replicated = true},
    {.collective = Collective::kReduce,
     .name = "reduce",
     .input = {BlockCount::kOne},
     .output = {BlockCount::kOne, true},
     .common = CommonSide::kInput,
     .root = RootRole::kTakes,
     .reduces = true},
    {.collective = Collective::kGather,
     .name = "gather",
     .input = {BlockCount::kOne},
     .output = {BlockCount::kPerRank, true},
     .common = CommonSide::kInput,
     .common_if_equal = true,
     .root = RootRole::kTakes},
    {.collective = Collective::kScatter,
     .name = "scatter",
     .input = {BlockCount::kPerRank, true},
     .output = {BlockCount::kOne},
     .common = CommonSide::kOutput,
     .common_if_equal = true,
     .root = RootRole::kGives},
    {.collective = Collective::kBarrier, .name = "barrier", .replicated = true},
    {.collective = Collective::kSend,
     .name = "send",
     .input = {BlockCount::kOne},
     .point_to_point = true},
    {.collective = Collective::kRecv,
     .name = "recv",
     .output = {BlockCount::kOne},
     .point_to_point = true},
    scan_facts(Collective::kScan, "scan"),
    scan_facts(Collective::kExscan, "exscan"),
}};

constexpr const CollectiveFacts& facts_of(Collective c) {
  return kCollectives[static_cast<std::size_t>(c)];
}

constexpr std::string_view collective_name(Collective c) { return facts_of(c).name; }

std::optional<Collective> find_collective(std::string_view name);

// Whether one rank is the root.
constexpr bool is_rooted(Collective c) { return facts_of(c).root != RootRole::kNone; }
// Whether what a rank passes as input counts.
constexpr bool input_counts(Collective c, bool is_root) {
  return is_root || facts_of(c).root != RootRole::kGives;
}
// Whether a rank has a result.
constexpr bool has_result(Collective c, bool is_root) {
  return is_root || facts_of(c).root != RootRole::kTakes;
}

// Whether the input, or the output, has a block for every rank.
constexpr bool has_input_blocks(Collective c) {
  return facts_of(c).input.count == BlockCount::kPerRank;
}
constexpr bool has_output_blocks(Collective c) {
  return facts_of(c).output.count == BlockCount::kPerRank;
}
constexpr bool has_blocks_by_rank(Collective c) {
  return has_input_blocks(c) || has_output_blocks(c);
}
// Whether the other side has a block for every rank, and this side only this rank's block.
constexpr bool has_own_input(Collective c) { return has_output_blocks(c) && !has_input_blocks(c); }
constexpr bool has_own_output(Collective c) { return has_input_blocks(c) && !has_output_blocks(c); }

constexpr std::size_t block_count(const BlockSide& side, bool is_root, int size) {
  if (side.count == BlockCount::kNone || (side.at_root_only && !is_root)) return 0;
  return side.count == BlockCount::kOne ? 1 : static_cast<std::size_t>(size);
}

// Whether the collective moves elements at all.
constexpr bool has_elements(Collective c) {
  return facts_of(c).input.count != BlockCount::kNone ||
         facts_of(c).output.count != BlockCount::kNone;
}
// Whether the result has blocks of several ranks side by side: a lost rank can leave a hole in it.
constexpr bool gathers(Collective c) { return has_output_blocks(c); }
constexpr bool reduces(Collective c) { return facts_of(c).reduces; }
// Whether the result of a reduction is a rank's own, which no other rank holds or needs.
constexpr bool is_reduced_for_each(Collective c) {
  return reduces(c) && !facts_of(c).replicated && facts_of(c).root == RootRole::kNone;
}
// Whether a rank's result has the inputs of the ranks up to it alone.
constexpr bool is_scan(Collective c) { return c == Collective::kScan || c == Collective::kExscan; }
constexpr bool is_replicated(Collective c) { return facts_of(c).replicated; }
constexpr bool is_point_to_point(Collective c) { return facts_of(c).point_to_point; }
// Whether chunk c of input and output may be the same memory.
constexpr bool may_be_in_place(Collective c) { return facts_of(c).in_place; }

constexpr CommonSide common_side(Collective c, bool equal_blocks) {
  return facts_of(c).common_if_equal && !equal_blocks ? CommonSide::kNone : facts_of(c).common;
}
// Whether the larger of input and output has the same size at all ranks. This is not so where only
// the root has a block for every rank: the other ranks then have one block.
constexpr bool is_sized_alike(Collective c, bool equal_blocks) {
  if (!has_elements(c)) return true;
  return common_side(c, equal_blocks) != CommonSide::kNone &&
         !(is_rooted(c) && has_blocks_by_rank(c));
}

}  // namespace holdfast::comm
