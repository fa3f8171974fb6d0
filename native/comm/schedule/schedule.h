// Schedule IR: what one rank does in one collective, as data. Sizes are not in it: a step names
// chunks, and the engine binds chunks to memory, so one schedule serves every message size.
//
// Memory model. Every rank has three spaces of chunks:
//   input    the caller's contribution; read only
//   output   the caller's result; written only with final values (the chunk lemma of repair needs
//   this:
//            at every instant some rank holds final(c) or every rank still has its input(c))
//   scratch  private temporaries; chunk i is as large as the input or output chunk it stands in for
// Input and output may be the same memory (in place, see may_be_in_place): chunk c of both then
// alias.
//
// Chunk counts by collective (n ranks): all_reduce K -> K for a K that the algorithm chooses (the
// caller's one block is cut into K nearly equal chunks), broadcast and reduce likewise;
// reduce_scatter n -> n with only output[rank] existing; all_gather n -> n with only input[rank]
// existing; all_to_all n -> n; gather n -> n with only input[rank] existing, output only at the
// root; scatter the reverse; barrier 0 -> 0 with zero-byte scratch.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "comm/collective.h"

namespace holdfast::comm {

enum class StepKind : std::uint8_t { kSend, kRecv, kCopy, kReduce, kEncode, kDecode };
enum class Space : std::uint8_t { kInput, kOutput, kScratch };

struct Slot {
  Space space = Space::kInput;
  std::uint32_t chunk = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

// `step` must come first. streamed: the consumer reads exactly the slot that `step` writes, element
// by element, so it may follow behind the producer's cursor; otherwise it waits until `step` is
// complete.
struct Dependency {
  std::uint32_t step = 0;
  bool streamed = false;
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct Step {
  StepKind kind{};
  Rank peer{};  // send, recv
  std::uint32_t ordinal =
      0;               // send, recv: number of this message on the directed link, within this op
  Slot dst;            // recv, copy, reduce
  Slot lhs;            // send, copy: the source; reduce: left operand
  Slot rhs;            // reduce: right operand; dst = lhs (op) rhs, in this order on every run
  bool final = false;  // reduce: the result is the collective's result; averages divide here
  std::vector<Dependency> deps;
};

struct Schedule {
  Collective collective{};
  Rank rank{};
  int size = 0;
  Rank root{};                // broadcast, reduce, gather, scatter
  std::uint32_t chunks = 0;   // input and output chunks (see above)
  std::vector<Slot> scratch;  // scratch[i]: the input or output slot whose size scratch chunk i has
  std::vector<Step> steps;    // in an order in which a single thread could run them
};

// Whether callers may pass one buffer as input and output: chunk c of both may then be one memory.
// All-to-all may not: a block would be overwritten by its successor before it has gone.
constexpr bool may_be_in_place(Collective collective) {
  return collective != Collective::kAllToAll;
}

// Whether two slots of one rank may be the same memory.
constexpr bool may_alias(const Slot& a, const Slot& b, bool in_place) {
  if (a.chunk != b.chunk) return false;
  return a.space == b.space ||
         (in_place && a.space != Space::kScratch && b.space != Space::kScratch);
}

}  // namespace holdfast::comm
