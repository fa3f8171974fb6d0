// Schedule IR: what one rank does in one collective, as data. Sizes are not in it: a step names
// chunks, and the engine binds chunks to memory, so one schedule serves every message size.
//
// Memory model. Every rank has three spaces of chunks:
//   input    the caller's contribution; read only
//   output   the caller's result; written only with final values. The chunk lemma of repair needs
//            this: at every instant some rank holds final(c) or every rank still has its input(c)
//   scratch  private temporaries; chunk i stands in for an input or output chunk: as it is, encoded
//            (a frame), or as a sum in f32 (wide)
// Input and output may be the same memory (in place, see may_be_in_place): chunk c of both then
// alias.
//
// Chunk counts, input -> output, for n ranks:
//   all_reduce      K -> K for a K that the algorithm chooses: the caller's one block is cut into K
//                   nearly equal chunks, or by the schedule's shares
//   broadcast       as all_reduce
//   reduce          as all_reduce
//   reduce_scatter  n -> n with only output[rank] existing
//   all_gather      n -> n with only input[rank] existing
//   all_to_all      n -> n
//   gather          n -> n with only input[rank] existing, output only at the root
//   scatter         n -> n with only output[rank] existing, input only at the root
//   scan, exscan    as all_reduce
//   barrier         0 -> 0 with zero-byte scratch
// Reduce_scatter, all_gather and all_to_all may cut every block into P chunks, and then have P n;
// by the schedule's shares, too.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "comm/schedule/collective.h"

namespace holdfast::comm {

enum class StepKind : std::uint8_t { kSend, kRecv, kCopy, kReduce, kEncode, kDecode };
enum class Space : std::uint8_t { kInput, kOutput, kScratch };
// The form in which a scratch chunk holds the chunk that it stands in for.
enum class Form : std::uint8_t { kPlain, kFrame, kWide };

struct Slot {
  Space space = Space::kInput;
  std::uint32_t chunk = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

struct ScratchChunk {
  Slot like;  // the input or output slot it stands in for
  Form form = Form::kPlain;
  friend bool operator==(const ScratchChunk&, const ScratchChunk&) = default;
};

// `step` must come first. streamed: element by element, so the consumer may follow behind the
// cursor of `step`: it reads exactly the slot that `step` writes, or writes what `step` reads;
// otherwise it waits until `step` is complete.
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
  Slot dst;            // all but send
  Slot lhs;            // reduce: left operand; send, copy, encode, decode: the source
  Slot rhs;            // reduce: right operand; dst = lhs (op) rhs, in this order on every run
  bool final = false;  // reduce: the result is the collective's result; averages divide here
  std::vector<Dependency> deps;
};

// Whether the step reads from `lhs`, and whether it writes to `dst`.
constexpr bool reads(const Step& step) { return step.kind != StepKind::kRecv; }
constexpr bool writes(const Step& step) { return step.kind != StepKind::kSend; }

struct Schedule {
  Collective collective{};
  Rank rank{};
  int size = 0;
  Rank root{};               // broadcast, reduce, gather, scatter
  std::uint32_t chunks = 0;  // input and output chunks (see above)
  std::uint32_t pieces = 1;  // chunks per block, where every rank has a block
  // By chunk, its share of the block that it is a part of, in parts of the sum of that block's
  // chunks; empty: nearly equal ones.
  std::vector<std::uint32_t> shares;
  std::vector<ScratchChunk> scratch;
  std::vector<Step> steps;  // in an order in which a single thread could run them
};

inline Form form_of(const Schedule& schedule, const Slot& slot) {
  return slot.space == Space::kScratch ? schedule.scratch[slot.chunk].form : Form::kPlain;
}

// Whether two slots of one rank may be the same memory.
constexpr bool may_alias(const Slot& a, const Slot& b, bool in_place) {
  if (a.chunk != b.chunk) return false;
  return a.space == b.space ||
         (in_place && a.space != Space::kScratch && b.space != Space::kScratch);
}

// Numbers the slots of a rank, so that two that may be the same memory have one number.
struct SlotNumbers {
  std::uint32_t chunks = 0;
  bool in_place = false;

  std::uint32_t first_scratch() const { return in_place ? chunks : 2 * chunks; }
  std::uint32_t of(const Slot& slot) const {
    if (slot.space == Space::kScratch) return first_scratch() + slot.chunk;
    return slot.space == Space::kInput || in_place ? slot.chunk : chunks + slot.chunk;
  }
};

}  // namespace holdfast::comm
