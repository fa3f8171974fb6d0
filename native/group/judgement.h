// Judgement: what a member does with each of its ops when a new view begins, by what the members of
// the last view reported. Pure functions: repair.h plans a repair, and the group carries it out.
// Why: docs/decisions/0020-reports-not-plans.md, docs/decisions/0131-a-group-is-made-of-parts.md
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "group/repair.h"
#include "group/report.h"

namespace holdfast::group {

// How an op stands at this member.
struct OpStanding {
  enum class Where : std::uint8_t {
    kNotCalled,
    kUnderWay,
    kEndedFlat,  // on the flat exchange, where the others can end it, too
    kKept,       // ended, with a copy of the result
  };
  Where where = Where::kNotCalled;
  bool complete = false;         // under way: the whole result was here when the view ended
  const OpFate* fate = nullptr;  // under way, kept: its fate so far
};

// What the group's members have agreed on.
struct LossRules {
  std::size_t ranks = 0;  // of the group, vacant ones included
  bool raise = false;     // PeerLoss::kRaise
};

enum class Verdict : std::uint8_t {
  kForget,      // nothing is left to do, and the op has no place in the log of calls
  kRemember,    // the op is judged when it is called here
  kNote,        // the op has ended everywhere: it is written into the log, and forgotten
  kServe,       // others lack the result, and get it from here
  kEnd,         // the op ends well, without a place in the log
  kEndNoted,    // the op ends well, with a place in the log
  kFinishFlat,  // what the op needs lies in the flat exchange
  kBegin,       // the op goes on as its fate says
};

struct Judgement {
  Verdict verdict{};
  std::optional<OpFate> fate = {};  // from now on; nothing: unchanged
};

// `question`: for an op that was called here.
Judgement judge(const OpStanding& standing, const RepairQuestion& question, const LossRules& rules,
                const Incident& incident);
// The fate that several incidents give an op that was not called here until now.
OpFate fate_through(std::span<const std::shared_ptr<Incident>> incidents,
                    const RepairQuestion& question, const LossRules& rules);
RepairQuestion question_of(const comm::OpRequest& request);

// The reports of a view that ended, by the sequence number of the op.
using Incidents = std::map<std::uint64_t, std::shared_ptr<Incident>>;
// `blank`: the change of view, without reports; `by_rank`: what its survivors reported.
Incidents incidents_of(const Incident& blank, const std::map<Rank, const GroupReport*>& by_rank);

// Why an op cannot begin in a view of these ranks; nothing: it can. `broken`: not ok once a loss
// has ended the step (PeerLoss::kRaise).
std::optional<Status> refusal(const comm::OpRequest& request, const OpFate& fate,
                              const std::vector<Rank>& present, const Status& broken, Epoch epoch);
// Not ok: the result of an op that ended well has a hole that is an error. Depends only on what all
// survivors know alike, so that all of them end the op alike: if a gather's root has the hole, the
// others fail, too.
Status look_for_hole(const comm::OpRequest& request, const OpFate& fate, comm::OnHole on_hole);

}  // namespace holdfast::group
