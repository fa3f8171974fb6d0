#include "sim/ledger.h"

#include <algorithm>

namespace holdfast::sim {
namespace {

std::string list(const std::vector<Rank>& ranks) {
  std::string text;
  for (const Rank r : ranks) text += (text.empty() ? "" : ",") + std::to_string(r.value);
  return "[" + text + "]";
}

std::string text(const comm::Outcome& o) {
  return "epoch " + std::to_string(o.epoch.value) + " contributors " + list(o.contributors) +
         " missing " + list(o.missing) + (o.retried ? " retried" : "");
}

bool lacks(const comm::Outcome& outcome, Rank rank) {
  return std::find(outcome.missing.begin(), outcome.missing.end(), rank) != outcome.missing.end();
}

// Whether a program may go on after an op that ended so; other codes mean that it is no member any
// more.
bool is_result(std::uint32_t code) {
  return code == static_cast<std::uint32_t>(Code::kOk) ||
         code == static_cast<std::uint32_t>(Code::kPeerLost);
}

}  // namespace

void Ledger::on_wrong(int process, const std::string& what) {
  if (violation_.empty()) violation_ = "process " + std::to_string(process) + ": " + what;
}

void Ledger::judge(int process, int op, const OpData& data, const Status& status,
                   const comm::Outcome& outcome) {
  const bool well = status.is_ok();
  const std::string wrong = well ? data.check(outcome) : data.check_failed(status, outcome);
  if (wrong.empty()) return;
  on_wrong(process, (well ? "G2: op " : "G6: op ") + std::to_string(op) + ", " +
                        std::string(comm::collective_name(data.op().collective)) + ": " + wrong +
                        (well ? "" : ": " + status.message()) + "; " + text(outcome));
}

void Ledger::on_ended(int process, int op, const OpData& data, const Status& status,
                      const comm::Outcome& outcome) {
  if (dead_.contains(process)) return;
  ++ops_;
  mix(static_cast<std::uint64_t>(op) << 8 | static_cast<std::uint64_t>(status.code()));
  if (data.op().is_shift) return;
  const std::uint64_t fingerprint = data.fingerprint();
  if (status.is_ok()) mix(fingerprint);
  judge(process, op, data, status, outcome);
  EndedOp ended{static_cast<std::uint32_t>(status.code()),
                fingerprint,
                fingerprint != 0,
                outcome,
                {},
                {data.rank()}};
  // With on_peer_loss=raise each rank names the ranks that its latest view has lost.
  if (status.code() == Code::kPeerLost && !data.op().losses_raise) ended.lost = status.ranks();
  if (status.is_ok() && data.op().is_float && !outcome.retried) {
    float_sums_[{op, data.rank()}] = {outcome.contributors, data.float_bits()};
  }
  if (is_result(ended.code) && outcome.epoch.value > 0) {
    // No other process can have ended the same op in the same epoch in another way, whatever became
    // of that process.
    const auto [first, is_new] =
        firsts_.emplace(std::pair(op, outcome.epoch.value), std::pair(process, ended));
    if (!is_new) compare(op, process, ended, first->second.second);
  }
  ended_[op][process] = std::move(ended);
}

void Ledger::on_view(int process, CommId world, const ft::WorldView& view) {
  const auto last = epochs_.find({process, world});
  if (last != epochs_.end() && last->second == view.epoch) return;
  if (last != epochs_.end() && view.epoch < last->second) {
    on_wrong(process, "G4: from epoch " + std::to_string(last->second.value) + " back to " +
                          std::to_string(view.epoch.value));
  }
  epochs_[{process, world}] = view.epoch;
  Adopted& adopted = views_[{world, view.epoch.value}];
  const bool other = !adopted.processes.empty() && adopted.members != view.members;
  if (other && !drop_dead_branch(world, view.epoch)) {
    on_wrong(process, "G4: another view of epoch " + std::to_string(view.epoch.value) +
                          " than process " + std::to_string(*adopted.processes.begin()) +
                          " has had");
  }
  Adopted& now = views_[{world, view.epoch.value}];
  now.members = view.members;
  now.processes.insert(process);
  mix(view.epoch.value);
}

// Members that are left go on when all others are proven dead, though the others may have gone on
// without them before: no process is left that knows of it. All processes that had that view, or
// one after it, must have died by now.
bool Ledger::drop_dead_branch(CommId world, Epoch epoch) {
  const auto begin = views_.lower_bound({world, epoch.value});
  auto end = begin;
  std::set<int> branch;
  for (; end != views_.end() && end->first.first == world; ++end) {
    branch.insert(end->second.processes.begin(), end->second.processes.end());
  }
  if (!std::includes(dead_.begin(), dead_.end(), branch.begin(), branch.end())) return false;
  views_.erase(begin, end);
  branched_off_.insert(branch.begin(), branch.end());
  std::erase_if(firsts_, [&](const auto& entry) { return branch.contains(entry.second.first); });
  return true;
}

bool Ledger::is_outside(CommId world, Epoch epoch, MemberId member) const {
  const auto adopted = views_.find({world, epoch.value});
  if (adopted == views_.end()) return false;
  const std::vector<MemberId>& members = adopted->second.members;
  return std::find(members.begin(), members.end(), member) == members.end();
}

bool Ledger::has_lost(CommId world, Epoch epoch, MemberId member) const {
  auto at = views_.upper_bound({world, epoch.value});
  for (; at != views_.end() && at->first.first == world; ++at) {
    if (is_outside(world, {at->first.second}, member)) return true;
  }
  return false;
}

void Ledger::compare(int op, int process, const EndedOp& ended, const EndedOp& first) {
  const std::string name = "op " + std::to_string(op);
  if (ended.code != first.code) {
    on_wrong(process, "G6: " + name + " ended with code " + std::to_string(ended.code) +
                          ", elsewhere with " + std::to_string(first.code) + "; " +
                          text(ended.outcome) + " and " + text(first.outcome));
  } else if (ended.lost != first.lost) {
    on_wrong(process, "G6: " + name + " failed for the loss of " + list(ended.lost) +
                          ", elsewhere of " + list(first.lost));
  } else if (ended.code != 0) {
    return;
  } else if (ended.replicated && ended.fingerprint != first.fingerprint) {
    on_wrong(process, "G1: " + name + " has other bits; " + text(ended.outcome) + " and " +
                          text(first.outcome));
  } else if (ended.outcome != first.outcome) {
    on_wrong(process, "G1: " + name + " has another outcome: " + text(ended.outcome) +
                          ", elsewhere " + text(first.outcome));
  }
}

// A member that a view has lost is in none of the later ones: a process that comes back is another
// member.
void Ledger::look_for_returns() {
  std::map<CommId, std::set<MemberId>> before;
  std::map<CommId, std::set<MemberId>> gone;
  for (const auto& [key, adopted] : views_) {
    std::set<MemberId> here(adopted.members.begin(), adopted.members.end());
    here.erase(ft::kNobody);
    for (const MemberId member : here) {
      if (!gone[key.first].contains(member)) continue;
      on_wrong(*adopted.processes.begin(), "G4: the view of epoch " + std::to_string(key.second) +
                                               " has a member again that an earlier one had lost");
    }
    for (const MemberId member : before[key.first]) {
      if (!here.contains(member)) gone[key.first].insert(member);
    }
    before[key.first] = std::move(here);
  }
}

// Two processes that ended an op, each without the other, have not been in one history.
void Ledger::look_for_splits() {
  for (const auto& [op, by_process] : ended_) {
    for (auto a = by_process.begin(); a != by_process.end(); ++a) {
      for (auto b = std::next(a); b != by_process.end(); ++b) {
        const bool went_on = !branched_off_.contains(a->first) && !branched_off_.contains(b->first);
        const bool both = went_on && a->second.code == 0 && b->second.code == 0 &&
                          lacks(a->second.outcome, b->second.rank) &&
                          lacks(b->second.outcome, a->second.rank);
        if (!both) continue;
        on_wrong(a->first, "G4: op " + std::to_string(op) + " ended without process " +
                               std::to_string(b->first) + ", which ended it without this one");
      }
    }
  }
}

void Ledger::compare(const std::vector<int>& survivors) {
  look_for_returns();
  look_for_splits();
  for (const auto& [op, by_process] : ended_) {
    const EndedOp* first = nullptr;
    for (const auto& [process, ended] : by_process) {
      if (std::find(survivors.begin(), survivors.end(), process) == survivors.end()) continue;
      if (first != nullptr) compare(op, process, ended, *first);
      if (first == nullptr) first = &ended;
    }
  }
}

}  // namespace holdfast::sim
