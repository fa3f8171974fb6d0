// What goes wrong in a simulation, and who starts again.
#include <algorithm>

#include "sim/run.h"

namespace holdfast::sim {

void Simulation::crash(int process) {
  Host& h = host(process);
  if (!h.alive) return;
  h.alive = false;
  log(process, "crashes");
  for (auto& [way, list] : wires_) {
    if (way.first != process && way.second != process) continue;
    for (const auto& wire : list) {
      if (way.first == process) close_wire(*wire, *this, true);
      wire->dead = true;
    }
  }
}

void Simulation::restart(int rank) {
  const auto number = static_cast<int>(hosts_.size());
  const MemberId id{1000 + random_.below(1'000'000) * 1000 + 999};
  Host h;
  h.process = std::make_shared<Process>(scenario_, number, id, Rank{rank}, *this);
  hosts_.push_back(std::move(h));
  log(number, "starts");
  std::vector<MemberId> contacts;
  if (scenario_.outside) contacts.push_back(kCoordinatorId);
  for (int p = 0; p < number; ++p) {
    if (!host(p).alive || !(host(p).process->admitted() || p == coordinator_)) continue;
    link(p, number);
    if (!scenario_.outside) contacts.push_back(host(p).process->id());
  }
  holders_[static_cast<std::size_t>(rank)] = number;
  host(number).process->join(contacts);
  wake(number, now_);
}

void Simulation::start_coordinator() {
  if (coordinator_ >= 0 && host(coordinator_).alive) return;
  coordinator_ = static_cast<int>(hosts_.size());
  Host h;
  // A rank that nobody has: what happens to ranks does not happen to it.
  const Rank rank{scenario_.ranks + 64};
  h.process = std::make_shared<Process>(scenario_, coordinator_, kCoordinatorId, rank, *this);
  hosts_.push_back(std::move(h));
  log(coordinator_, "starts to coordinate");
  host(coordinator_)
      .process->coordinate(random_.next(), scenario_.seed % 2 == 0 ? &record_ : nullptr);
  for (int p = 0; p < coordinator_; ++p) {
    const Host& other = host(p);
    if (other.alive && other.process->id() != kCoordinatorId) link(p, coordinator_);
  }
  wake(coordinator_, now_);
}

void Simulation::happen(const Fault& f) {
  const int a = holder(f.a);
  const int b = holder(f.b);
  log(-1,
      "fault: " + fault_name(f.kind) + " a " + std::to_string(f.a) + " b " + std::to_string(f.b));
  switch (f.kind) {
    case FaultKind::kCrash: return crash(a);
    case FaultKind::kRestart:
      if (!host(a).alive) restart(f.a);
      return;
    case FaultKind::kPause:
      host(a).paused_until = std::max(host(a).paused_until, now_ + f.lasts);
      return;
    case FaultKind::kCut:
      for (const auto& way : {std::pair{a, b}, std::pair{b, a}}) {
        for (const auto& wire : wires_[way]) close_wire(*wire, *this, false);
      }
      return;
    case FaultKind::kLeave:
      if (!host(a).alive || host(a).process->stopped()) return;
      log(a, "leaves");
      return host(a).process->leave();
    case FaultKind::kCoordinator:
      if (coordinator_ < 0) return;
      crash(coordinator_);
      events_.push({now_ + f.lasts, ++order_, -1, -1, Event::Other::kCoordinator});
      return;
    case FaultKind::kDrift: host(a).drift = f.lasts; return;
    default: return weather_.begin(f, now_);
  }
}

}  // namespace holdfast::sim
