#include "group/judgement.h"

#include <algorithm>

#include "base/planted.h"
#include "comm/call/call.h"

namespace holdfast::group {
namespace {

const OpReport* find_report(const GroupReport& report, OpSeq sequence) {
  const auto at = std::find_if(report.ops.begin(), report.ops.end(),
                               [&](const OpReport& op) { return op.sequence == sequence; });
  return at == report.ops.end() ? nullptr : &*at;
}

bool any_complete(const Incident& incident) {
  return std::any_of(incident.reports.begin(), incident.reports.end(),
                     [](const auto& report) { return report && report->complete; });
}

// The fate of an op that began in the view that has ended.
OpFate fate_before(const Incident& incident, const LossRules& rules) {
  return fate_at_start(incident.before, rules.ranks, {incident.epoch.value - 1});
}

OpFate next_fate(const OpFate& fate, const RepairQuestion& question, const LossRules& rules,
                 const Incident& incident) {
  OpFate next = fate_after(fate, question, incident);
  if (is_planted(Planted::kStaleOutcome)) next.missing = fate.missing;
  if (rules.raise && !any_complete(incident) && incident.survivors != incident.before) {
    next.lost = true;
  }
  return next;
}

// Some survivor has nothing more to report of the op: it is no longer in any member's log, for not
// all could write it there.
Judgement judge_settled(const OpStanding& standing) {
  if (standing.where != OpStanding::Where::kUnderWay) return {Verdict::kForget};
  if (standing.complete) return {Verdict::kEnd};
  // A member that ended the op without this rank ended it badly.
  OpFate fate = *standing.fate;
  fate.lost = true;
  return {Verdict::kBegin, std::move(fate)};
}

Judgement judge_under_way(const OpStanding& standing, const RepairQuestion& question,
                          const LossRules& rules, const Incident& incident) {
  const bool unknown = standing.fate->contributors.empty();
  OpFate fate =
      next_fate(unknown ? fate_before(incident, rules) : *standing.fate, question, rules, incident);
  const Verdict verdict = incident.all_complete() ? Verdict::kEndNoted
                          : fate.finish_flat      ? Verdict::kFinishFlat
                                                  : Verdict::kBegin;
  return {verdict, std::move(fate)};
}

// The op's fate from where it ended, through every view since, as members see it that have not
// ended it.
Judgement judge_kept(const OpStanding& standing, const RepairQuestion& question,
                     const LossRules& rules, const Incident& incident) {
  const bool afresh = is_planted(Planted::kFreshKept);
  OpFate fate =
      next_fate(afresh ? fate_before(incident, rules) : *standing.fate, question, rules, incident);
  const Verdict verdict = incident.all_complete() || fate.lost ? Verdict::kNote : Verdict::kServe;
  return {verdict, std::move(fate)};
}

}  // namespace

Judgement judge(const OpStanding& standing, const RepairQuestion& question, const LossRules& rules,
                const Incident& incident) {
  if (incident.settled) return judge_settled(standing);
  switch (standing.where) {
    case OpStanding::Where::kUnderWay: return judge_under_way(standing, question, rules, incident);
    case OpStanding::Where::kEndedFlat: return {Verdict::kNote};
    case OpStanding::Where::kKept: return judge_kept(standing, question, rules, incident);
    default: return {Verdict::kRemember};
  }
}

OpFate fate_through(std::span<const std::shared_ptr<Incident>> incidents,
                    const RepairQuestion& question, const LossRules& rules) {
  OpFate fate = fate_before(*incidents.front(), rules);
  for (const auto& incident : incidents) fate = next_fate(fate, question, rules, *incident);
  return fate;
}

RepairQuestion question_of(const comm::OpRequest& request) {
  const bool lossy = request.codec && !request.codec->spec().lossless;
  return {request.collective, request.root, request.atomic,
          lossy && !is_planted(Planted::kMixUncoded)};
}

Incidents incidents_of(const Incident& blank, const std::map<Rank, const GroupReport*>& by_rank) {
  Incidents incidents;
  for (const auto& [rank, report] : by_rank) {
    for (const OpReport& op : report->ops) {
      if (incidents.contains(op.sequence.value)) continue;
      Incident incident = blank;
      for (const Rank survivor : blank.survivors) {
        const auto by = by_rank.find(survivor);
        const OpReport* said =
            by == by_rank.end() ? nullptr : find_report(*by->second, op.sequence);
        incident.reports.push_back(said == nullptr ? std::nullopt : std::optional(*said));
        const bool called = by != by_rank.end() && op.sequence.value < by->second->next_sequence;
        incident.settled = incident.settled || (called && said == nullptr);
      }
      incidents[op.sequence.value] = std::make_shared<Incident>(std::move(incident));
    }
  }
  return incidents;
}

std::optional<Status> refusal(const comm::OpRequest& request, const OpFate& fate,
                              const std::vector<Rank>& present, const Status& broken, Epoch epoch) {
  // A result that some survivor holds is brought to all, even so.
  if (!broken.is_ok() && !fate.planned) return broken;
  const bool vacant = comm::is_rooted(request.collective) &&
                      std::find(present.begin(), present.end(), request.root) == present.end();
  if (!fate.lost && !(vacant && !fate.planned)) return std::nullopt;
  const Rank root = request.root;
  return Status(Code::kPeerLost, "its root, rank " + std::to_string(root.value) +
                                     ", was lost before the survivors held all of its data")
      .about({root}, epoch);
}

Status look_for_hole(const comm::OpRequest& request, const OpFate& fate, comm::OnHole on_hole) {
  if (fate.missing.empty() || !gathers(call_of(request, {}).collective)) return Status::ok();
  if (request.on_hole.value_or(on_hole) == comm::OnHole::kZero) return Status::ok();
  if (is_planted(Planted::kHideHole)) return Status::ok();
  if (is_planted(Planted::kOwnHole) && request.output.empty()) return Status::ok();
  return Status(
             Code::kPeerLost,
             "without its data the result has a hole (option on_hole=raise). The group goes on: "
             "take zeros there (on_hole=zero), start the rank again and call advance(), or make a "
             "group without it")
      .about(fate.missing, fate.epoch);
}

}  // namespace holdfast::group
