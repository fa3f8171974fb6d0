// Which processes must have come to an end, and by when (G3). A fault that heals excuses no
// process. An excused process has no way to an end: it reaches no process that could decide the
// next view with it, or tell it that it was voted out.
#include <algorithm>
#include <map>

#include "ft/quorum.h"
#include "sim/run.h"

namespace holdfast::sim {
namespace {

// Counted from the last fault's end: many times what it takes to detect, agree and repair, and much
// less than the time limit of ops, by which no op should end.
constexpr int kHeartbeatsToEnd = 400;
// One world in so many goes on until the excused processes run into their time limits.
constexpr std::uint64_t kPatientWorlds = 16;

bool works(const std::vector<std::shared_ptr<Wire>>& wires, std::size_t count) {
  return wires.size() >= count &&
         std::all_of(wires.end() - static_cast<std::ptrdiff_t>(count), wires.end(),
                     [](const auto& wire) { return !wire->dead && !wire->failed; });
}

}  // namespace

Instant Simulation::deadline() const { return healed_ + heartbeat(scenario_) * kHeartbeatsToEnd; }

bool Simulation::hears(int a, int b) const {
  if (a == b) return host(a).alive;
  const auto there = wires_.find({a, b});
  const auto back = wires_.find({b, a});
  const std::size_t count = scenario_.two_links ? 2 : 1;
  return host(a).alive && host(b).alive && there != wires_.end() && back != wires_.end() &&
         works(there->second, count) && works(back->second, count);
}

bool Simulation::is_closed(int a, int b) const {
  const std::ptrdiff_t count = scenario_.two_links ? 2 : 1;
  for (const auto& way : {std::pair{a, b}, std::pair{b, a}}) {
    const auto found = wires_.find(way);
    if (found == wires_.end()) continue;
    const auto& wires = found->second;
    const bool closed = std::any_of(wires.end() - count, wires.end(),
                                    [](const auto& wire) { return wire->closed_here; });
    if (closed) return true;
  }
  return false;
}

ft::WorldView Simulation::newest_view(bool second) const {
  ft::WorldView newest;
  for (const Host& h : hosts_) {
    if (!h.alive || !h.process->admitted()) continue;
    ft::WorldView view = second ? h.process->second_view() : h.process->world_view();
    if (view.epoch > newest.epoch) newest = std::move(view);
  }
  return newest;
}

// Whether those who decide know that the process has ended; `here`: the living members of its view.
// With a secret who saw it on its host passes that on, and what a witness tells counts for whom it
// has told.
bool Simulation::is_proven(int process, const std::vector<int>& here) const {
  if (host(process).vanished) return false;
  const bool seen = std::any_of(here.begin(), here.end(), [&](int q) {
    const auto way = wires_.find({process, q});
    const bool sees = !scenario_.signs || share_host(process, q);
    return sees && way != wires_.end() && way->second.back()->proves_death;
  });
  const auto is_told = [&](int q) { return told_.contains({q, host(process).process->id()}); };
  if (seen || !scenario_.launched) return seen;
  return scenario_.outside ? is_told(coordinator_) : std::all_of(here.begin(), here.end(), is_told);
}

// Living members of the newest view that hear each other and may decide the next one; empty: there
// may be no next one. Of members that do not hear each other, the one with most such quarrels goes
// first.
std::vector<int> Simulation::who_agree(const ft::WorldView& view) const {
  std::vector<int> here;
  std::vector<int> dead;
  ft::Vote vote;
  vote.view = view.present();
  vote.all_proven = true;
  if (scenario_.outside) {
    vote.recorded = std::any_of(
        store_.record.worlds.begin(), store_.record.worlds.end(), [&](const auto& entry) {
          return entry.second.epoch == view.epoch && entry.second.members == vote.view;
        });
    // A coordinator that was started anew has not decided the view.
    vote.half = ft::HalfOfView::kTooFew;
  }
  for (const Host& h : hosts_) {
    const bool member = h.process->admitted() && view.has(h.process->id());
    if (member && h.alive) here.push_back(h.process->number());
    if (member && !h.alive) dead.push_back(h.process->number());
  }
  for (const int p : dead) vote.all_proven = vote.all_proven && is_proven(p, here);
  const auto quarrels = [&](int p) {
    return std::count_if(here.begin(), here.end(), [&](int q) { return !hears(p, q); });
  };
  while (!here.empty()) {
    const int worst = *std::max_element(here.begin(), here.end(),
                                        [&](int a, int b) { return quarrels(a) < quarrels(b); });
    if (quarrels(worst) == 0) break;
    std::erase(here, worst);
    vote.all_proven = false;
  }
  if (scenario_.outside) {
    const bool reached = coordinator_ >= 0 && host(coordinator_).alive;
    std::erase_if(here, [&](int p) { return !reached || !hears(p, coordinator_); });
  }
  for (const int p : here) vote.staying.push_back(host(p).process->id());
  return ft::may_decide(vote) ? here : std::vector<int>{};
}

// Whether the process hears the other one, and takes its word that it is out: that of one that
// shows it signed; else that of a member of its view, or, where there is one, of its coordinator.
bool Simulation::may_tell(int other, int process) const {
  if (!hears(process, other)) return false;
  if (scenario_.signs || process == other) return true;
  if (scenario_.outside) return hears(process, coordinator_);
  const MemberId id = host(other).process->id();
  return host(process).process->world_view().has(id) ||
         host(process).process->second_view().has(id);
}

// The members that agree, and processes that hear one of them: such a process takes part, or is
// told that it does not.
std::vector<int> Simulation::who_must_end() const {
  const std::vector<int> agree = who_agree(newest_view());
  std::vector<int> must;
  // Each world has a history of its own, and a process may wait for an op of either.
  const ft::WorldView second = newest_view(true);
  if (second.epoch.value > 0 && who_agree(second).empty()) return must;
  for (const Host& h : hosts_) {
    const int p = h.process->number();
    if (!h.alive || !h.process->admitted()) continue;
    const bool reached =
        std::any_of(agree.begin(), agree.end(), [&](int other) { return may_tell(other, p); });
    if (reached) must.push_back(p);
  }
  return must;
}

void Simulation::look_for_late() {
  for (const int p : who_must_end()) {
    const Process& process = *host(p).process;
    const bool fine = process.done() || process.has_left() || process.was_told() ||
                      process.ended().starts_with("refused");
    if (!fine) ledger_.on_wrong(p, "G3: has not ended in time; " + process.state());
  }
  // The run cannot change its verdict any more.
  gave_up_ = scenario_.seed % kPatientWorlds != 0;
}

std::vector<int> Simulation::survivors() const {
  const ft::WorldView last = newest_view();
  const ft::WorldView second = newest_view(true);
  std::vector<int> result;
  for (const Host& h : hosts_) {
    const Process& process = *h.process;
    // The others have all results that a process has which left in peace.
    if (process.has_left_in_peace()) result.push_back(process.number());
    // A process that was voted out, even of only one of two worlds, may not know it yet.
    const bool in_second = process.second_view().epoch.value == 0 || second.has(process.id());
    const bool stays = h.alive && process.admitted() && last.has(process.id()) && in_second;
    if (stays && !process.stopped()) result.push_back(process.number());
  }
  return result;
}

void Simulation::judge(RunVerdict& verdict) {
  if (store_.stale > 0) {
    ledger_.on_wrong(coordinator_, "G4: a coordinator has decided that led no more");
  }
  const std::vector<int> must = who_must_end();
  for (const Host& h : hosts_) {
    const Process& process = *h.process;
    if (!h.alive) continue;
    if (process.stopped()) ++verdict.stopped;
    if (process.number() >= scenario_.ranks && process.admitted()) {
      ++verdict.admitted;
      if (process.shares_memory()) ++verdict.sharing;
    }
    if (process.admitted()) {
      verdict.views = std::max(verdict.views, static_cast<int>(process.epoch().value));
    }
    if (std::find(must.begin(), must.end(), process.number()) == must.end()) continue;
    const bool fine = process.done() || process.was_told() || process.has_left() ||
                      process.ended().starts_with("refused");
    if (!fine && !gave_up_) ledger_.on_wrong(process.number(), "G3: " + process.state());
  }
  ledger_.compare(survivors());
}

}  // namespace holdfast::sim
