// The collectives and what each one asks of its blocks. A block is a run of elements owned by the
// caller.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::comm {

// n = size of the communicator, r = own rank. Blocks per rank (input -> output):
//   all_reduce      1 -> 1   output = sum over ranks of input
//   reduce_scatter  n -> 1   output at r = sum over ranks of input[r]
//   all_gather      1 -> n   output[s] = input of rank s
//   all_to_all      n -> n   output[s] at r = input[r] of rank s
//   broadcast       1 -> 1   output = input of root (at the root input and output are one buffer)
//   reduce          1 -> 1   output at root = sum over ranks; no output elsewhere
//   gather          1 -> n   output[s] at root = input of rank s; no output elsewhere
//   scatter         n -> 1   output at r = input[r] of root; no input elsewhere
//   barrier         0 -> 0
//   send / recv     1 -> 0 / 0 -> 1, matched by (peer, tag) in program order
enum class Collective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kBarrier,
  kSend,
  kRecv,
};
inline constexpr int kCollectiveCount = 11;

std::string_view collective_name(Collective collective);  // "all_reduce", ...

// One rank is its root.
constexpr bool is_rooted(Collective c) {
  return c == Collective::kBroadcast || c == Collective::kReduce || c == Collective::kGather ||
         c == Collective::kScatter;
}
// Its result has blocks of several ranks side by side: where one is lost there can be a hole.
constexpr bool gathers(Collective c) {
  return c == Collective::kAllGather || c == Collective::kAllToAll || c == Collective::kGather;
}
// Its elements are combined.
constexpr bool reduces(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kReduceScatter || c == Collective::kReduce;
}

}  // namespace holdfast::comm
