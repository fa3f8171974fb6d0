// Repair plan: what the survivors of a view do with one op that the end of the view cut off. A pure
// function of their reports, so that all of them, and every replay, make the same plan.
//
// The chunk lemma: for every piece of a result, either a survivor holds it in its final form, and
// serves it, or every survivor still has its input for it, and they reduce it again among
// themselves. Holds because results are written only with final values.
// Why: docs/decisions/0020-reports-not-plans.md
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/types.h"
#include "comm/schedule/collective.h"
#include "ft/ranges.h"

namespace holdfast::group {

// What a survivor holds of one output block.
struct HeldBlock {
  std::uint32_t block = 0;  // rank that the block belongs to; 0: the only block
  ft::Ranges held;          // elements
  friend bool operator==(const HeldBlock&, const HeldBlock&) = default;
};

// A survivor's report on one op. An op that it has not called yet has no report.
struct OpReport {
  OpSeq sequence;
  bool complete = false;  // held in full, and can be served
  bool flat = false;      // complete on the flat exchange: the others can finish it there
  Epoch completed_in;     // with complete
  std::vector<HeldBlock> held;
  friend bool operator==(const OpReport&, const OpReport&) = default;
};

// A view change, as far as it concerns one op. All ranks are ranks of the group.
struct Incident {
  Epoch epoch;                  // of the new view
  std::vector<Rank> before;     // members of the view that ended
  std::vector<Rank> survivors;  // members of `before` that are in the new view; rising
  std::vector<std::optional<OpReport>> reports;  // by survivor
  // Some survivor has ended the op, knows that all members hold it, and reports nothing more of it.
  bool settled = false;

  bool all_complete() const;
};

struct RepairQuestion {
  comm::Collective collective{};
  Rank root{};
  bool atomic = false;   // one set of contributors for the whole result
  bool encoded = false;  // what the root or owner gave differs from what others hold of it
};

// `range` of the data of `from` goes to output block `block` of `to`. `from` may be `to`: a local
// copy.
struct Transfer {
  Rank from;
  Rank to;
  bool from_input = false;   // else from its output block `block`
  std::uint32_t source = 0;  // input block, with from_input
  std::uint32_t block = 0;
  ft::Range range;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// `range` of input block `block` is reduced again, for all survivors or for one.
struct Reduction {
  std::uint32_t block = 0;
  ft::Range range;
  std::optional<Rank> to;
  friend bool operator==(const Reduction&, const Reduction&) = default;
};

// What becomes of one op. Kept from incident to incident until the op has ended.
struct OpFate {
  std::vector<Rank> contributors;  // ranks whose data is in every part of the result
  std::vector<Rank> missing;       // ranks whose block was given up
  Epoch epoch;                     // in which the op ends
  bool retried = false;
  bool lost = false;         // cannot be repaired
  bool finish_flat = false;  // all that is needed lies in the flat exchange
  bool fresh = false;        // no rank holds anything: the op runs as if it began now
  bool planned = false;      // the transfers and reductions below are what is left to do
  std::vector<Transfer> transfers;
  std::vector<Reduction> reductions;
  std::vector<std::pair<Rank, std::uint32_t>> zeros;  // (rank, its output block) to be cleared
};

// Shared: most ops never meet an incident. Owners: the ops, and their group.
using Fate = std::shared_ptr<const OpFate>;

// The fate, before any incident, of an op that began in `epoch` among `members`, of `size` ranks.
OpFate fate_at_start(std::vector<Rank> members, std::size_t size, Epoch epoch);
// The fate that the incident gives the op.
OpFate fate_after(const OpFate& fate, const RepairQuestion& question, const Incident& incident);

}  // namespace holdfast::group
