// What goes wrong in a simulation, when, and which processes start again.
#include <algorithm>

#include "base/yield_point.h"
#include "sim/run.h"

namespace holdfast::sim {
namespace {

// Ranks beyond all ranks of a world: faults of ranks do not happen to these processes.
constexpr int kCoordinatorsRank = 64;
constexpr int kGrownRank = 128;
constexpr int kStrangersRank = 192;
// Of a store that is slow; longer than some heartbeats.
constexpr std::uint64_t kSlowestStoreUs = 5'000;
constexpr int kFailsPercent = 10;

bool is_network(FaultKind kind) {
  switch (kind) {
    case FaultKind::kPartition:
    case FaultKind::kClog:
    case FaultKind::kSlow:
    case FaultKind::kDrop:
    case FaultKind::kDuplicate:
    case FaultKind::kCorrupt:
    case FaultKind::kLate: return true;
    default: return false;
  }
}

}  // namespace

void Simulation::notice(When when, int process, int what) {
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    const Trigger& t = scenario_.faults[i].trigger;
    if (waiting_[i] == 0 || t.when != when) continue;
    if (when == When::kSends || when == When::kFault || when == When::kAdopts) {
      if (t.what != what) continue;
    } else if (what < t.what) {
      continue;
    }
    if (t.by >= 0 && (process < 0 || rank_of(process) != t.by)) continue;
    if (t.by == kOutsideCoordinator && process != coordinator_) continue;
    if (--waiting_[i] == 0) fire(i);
  }
}

// A process that ends at once does so in the middle of a step: of several messages that it sends,
// some leave.
void Simulation::fire(std::size_t fault) {
  const Fault& f = scenario_.faults[fault];
  const bool at_once =
      f.kind == FaultKind::kCrash || f.kind == FaultKind::kVanish || f.kind == FaultKind::kSuspend;
  if (at_once && f.at == Duration::zero()) return happen(fault);
  events_.push({now_ + f.at, ++order_, -1, static_cast<int>(fault), {}, -1});
}

bool Simulation::crash(int process) {
  Host& h = host(process);
  if (!h.alive) return false;
  h.alive = false;
  if (!h.process->has_left()) ledger_.on_death(process);
  log(process, "crashes");
  for (auto& [way, list] : wires_) {
    if (way.first != process && way.second != process) continue;
    for (const auto& wire : list) {
      if (way.first == process) close_wire(*wire, *this, true);
      wire->dead = true;
    }
  }
  if (scenario_.launched && scenario_.signs) bear_witness(process);
  return true;
}

// Whoever started it tells all who are there. All lives of a coordinator have one id, and no
// witness.
void Simulation::bear_witness(int process) {
  if (host(process).process->id() == kCoordinatorId) return;
  for (int p = 0; p < static_cast<int>(hosts_.size()); ++p) {
    if (!host(p).alive) continue;
    const Instant at = arrival(process, p);
    refusals_.push_back({p, host(process).process->id(), at, Refusal::Word::kWitness});
    wake(p, at);
  }
}

bool Simulation::vanish(int process) {
  Host& h = host(process);
  if (!h.alive) return false;
  h.alive = false;
  h.vanished = true;
  log(process, "vanishes");
  for (auto& [way, list] : wires_) {
    if (way.first != process && way.second != process) continue;
    for (const auto& wire : list) wire->dead = true;
  }
  return true;
}

bool Simulation::cut(int a, int b, bool as_if_dead, Duration lasts) {
  if (a == b || !hears(a, b)) return false;
  for (const auto& way : {std::pair{a, b}, std::pair{b, a}}) {
    for (const auto& wire : wires_[way]) close_wire(*wire, *this, as_if_dead);
  }
  if (lasts > Duration::zero()) {
    events_.push({now_ + lasts, ++order_, a, -1, SimEvent::Other::kRelink, b});
  }
  return true;
}

bool Simulation::reset(const Fault& fault, int a, int b) {
  if (fault.mask == 0) return cut(a, b, true, fault.lasts);
  bool any = false;
  for (int p = 0; p < static_cast<int>(hosts_.size()); ++p) {
    for (int q = p + 1; q < static_cast<int>(hosts_.size()); ++q) {
      const bool meant = fault.mask == 2 || p == a || q == a;
      any = (meant && cut(p, q, true, fault.lasts)) || any;
    }
  }
  return any;
}

bool Simulation::cut_off(int process, Duration lasts) {
  return coordinator_ >= 0 && cut(process, coordinator_, false, lasts);
}

// Closes a connection by itself. Frames that it had sent may be lost; frames that had come and were
// not read are lost.
bool Simulation::close_own(int process, int peer, bool data) {
  if (process == peer || !hears(process, peer)) return false;
  auto& there = wires_[{process, peer}];
  auto& back = wires_[{peer, process}];
  const std::size_t from_last = scenario_.two_links && !data ? 2 : 1;
  close_wire(**(there.end() - static_cast<std::ptrdiff_t>(from_last)), *this, true);
  Wire& in = **(back.end() - static_cast<std::ptrdiff_t>(from_last));
  in.packets.clear();
  in.dead = in.closed_here = true;
  wake(process, now_);
  return true;
}

// Whether the event concerns other processes alone and connects none: the suspended process is in
// the middle of its step.
bool Simulation::may_run_meanwhile(const SimEvent& event) const {
  if (event.fault < 0) return event.what == SimEvent::Other::kNone && connecting_.empty();
  const Fault& f = scenario_.faults[static_cast<std::size_t>(event.fault)];
  return holder(f.a) != running_ && (f.kind == FaultKind::kCrash || f.kind == FaultKind::kVanish);
}

void Simulation::suspend() {
  const int self = running_;
  if (self < 0 || host(self).suspension == Duration::zero()) return;
  if (host(self).looks > 0) {
    --host(self).looks;
    return;
  }
  const Instant until = now_ + std::exchange(host(self).suspension, {});
  healed_ = std::max(healed_, until);
  host(self).paused_until = until;
  log(self, "is suspended");
  while (!events_.empty() && events_.top().at < until && may_run_meanwhile(events_.top())) {
    const SimEvent event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    take(event);
    running_ = self;
  }
  if (events_.empty() || events_.top().at >= until) now_ = until;
  host(self).paused_until = now_;
  log(self, "goes on");
}

// Lets a new process run, and tells it the processes that it may ask to join.
void Simulation::let_in(int number, const std::shared_ptr<Process>& process) {
  Host h;
  h.process = process;
  hosts_.push_back(std::move(h));
  log(number, "starts");
  std::vector<MemberId> contacts;
  if (scenario_.outside) contacts.push_back(kCoordinatorId);
  for (int p = 0; p < number; ++p) {
    if (!host(p).alive || !(host(p).process->admitted() || p == coordinator_)) continue;
    link(p, number);
    if (!scenario_.outside) contacts.push_back(host(p).process->id());
  }
  process->join(contacts);
  wake(number, now_);
}

void Simulation::restart(int rank) {
  const auto number = static_cast<int>(hosts_.size());
  const MemberId id{1000 + random_.below(1'000'000) * 1000 + 999};
  holders_[static_cast<std::size_t>(rank)] = number;
  let_in(number, std::make_shared<Process>(scenario_, number, id, Rank{rank}, *this));
}

bool Simulation::grow() {
  if (!scenario_.elastic) return false;
  const auto number = static_cast<int>(hosts_.size());
  const MemberId id{1000 + random_.below(1'000'000) * 1000 + 998};
  const Rank rank{scenario_.ranks + kGrownRank + number};
  let_in(number, std::make_shared<Process>(scenario_, number, id, rank, *this));
  return true;
}

// Where views are signed, it may be one that was a member, and still has what it was told then.
MemberId Simulation::pick_liar(std::uint64_t seed, const ft::WorldView& view) {
  const MemberId own{1000 + random_.below(1'000'000) * 1000 + 997};
  if (!scenario_.signs || seed % 2 == 0) return own;
  for (const Host& h : hosts_) {
    const MemberId id = h.process->id();
    const bool was_in = h.process->admitted() && !h.alive;
    if (was_in && !view.has(id) && !view.has_outcast(id)) return id;
  }
  return own;
}

// A process that is nobody's member speaks to all others.
bool Simulation::let_in_stranger(std::uint64_t seed) {
  const ft::WorldView view = newest_view();
  if (view.members.empty()) return false;
  const auto number = static_cast<int>(hosts_.size());
  const MemberId id = pick_liar(seed, view);
  const Rank rank{scenario_.ranks + kStrangersRank + number};
  Host h;
  h.process = std::make_shared<Process>(scenario_, number, id, rank, *this);
  hosts_.push_back(std::move(h));
  log(number, "is a stranger");
  for (int p = 0; p < number; ++p) {
    if (host(p).alive) link(number, p);
  }
  // Without a secret a coordinator that has just been started believes whoever says that it is in a
  // view. All coordinators have one id, and a message goes to the last that was called.
  const bool believes =
      !scenario_.signs && std::any_of(hosts_.begin(), hosts_.end(), [](const Host& other) {
        return other.alive && other.process->is_new_coordinator();
      });
  Random forger(seed);
  for (const ft::Message& message : forge(known_world(view, shown_), id, forger)) {
    for (int p = 0; p < number; ++p) {
      const MemberId to = host(p).process->id();
      const bool believed = believes && to == kCoordinatorId && message.view.has(id);
      const bool meant = host(p).alive && forger.chance(70);
      if (meant && !believed) host(number).process->say_to(to, message);
    }
  }
  wake(number, now_);
  return true;
}

// Something in between closes the connection, and answers the call that follows.
bool Simulation::refuse_living(int a, int b, Duration lasts) {
  if (!scenario_.signs || lasts == Duration::zero() || !cut(a, b, true, lasts)) return false;
  const Instant at = arrival(b, a);
  refusals_.push_back({a, host(b).process->id(), at, Refusal::Word::kPacket});
  wake(a, at);
  return true;
}

bool Simulation::bear_false_witness(int a, int b) {
  const bool lives = host(a).alive && host(b).alive;
  if (!scenario_.signs || !lives || share_host(a, b)) return false;
  host(a).process->say_ended(host(b).process->id());
  wake(a, now_);
  return true;
}

bool Simulation::order(const Fault& order, int member) {
  if (coordinator_ < 0 || !host(coordinator_).alive) return false;
  Process& coordinator = *host(coordinator_).process;
  if (!coordinator.take_order(order, host(member).process->id())) return false;
  wake(coordinator_, now_);
  return true;
}

void Simulation::start_coordinator() {
  if (coordinator_ >= 0 && host(coordinator_).alive) return;
  move_coordinator(~std::uint64_t{0}, {});
}

// Starts a coordinator outside the view; the ranks of `mask` and all newcomers call it. A
// coordinator that lives keeps the other ranks for the time `lasts`; 0: for good.
bool Simulation::move_coordinator(std::uint64_t mask, Duration lasts) {
  const int before = coordinator_;
  coordinator_ = static_cast<int>(hosts_.size());
  Host h;
  const Rank rank{scenario_.ranks + kCoordinatorsRank};
  h.process = std::make_shared<Process>(scenario_, coordinator_, kCoordinatorId, rank, *this);
  hosts_.push_back(std::move(h));
  log(coordinator_, "starts to coordinate");
  if (scenario_.terms) ++store_.term;
  host(coordinator_).process->coordinate(random_.next(), store_.term, record_of(store_.term));
  for (int p = 0; p < coordinator_; ++p) {
    const Host& other = host(p);
    if (!other.alive || other.process->id() == kCoordinatorId) continue;
    if (rank_of(p) < kCoordinatorsRank && (mask >> rank_of(p) & 1) == 0) continue;
    if (before >= 0) cut(p, before, false, {});
    link(p, coordinator_);
  }
  wake(coordinator_, now_);
  if (before >= 0 && lasts > Duration::zero()) {
    events_.push({now_ + lasts, ++order_, before, -1, SimEvent::Other::kMoved, -1});
  }
  return true;
}

ft::Record* Simulation::record_of(std::uint64_t term) {
  if (!has_record(scenario_)) return nullptr;
  if (scenario_.slow_store) store_.mood = [this] { return ask_store(); };
  return &records_.emplace_back(store_, term);
}

// Whoever asks does nothing else until the answer comes.
StoreMood Simulation::ask_store() {
  if (running_ < 0) return StoreMood::kAnswers;
  Host& asks = host(running_);
  const Duration takes = std::chrono::microseconds(store_random_.below(kSlowestStoreUs));
  asks.busy_until = std::max(asks.busy_until, now_) + takes;
  asks.paused_until = std::max(asks.paused_until, asks.busy_until);
  if (store_random_.chance(kFailsPercent)) return StoreMood::kFails;
  return store_random_.chance(kFailsPercent) ? StoreMood::kAnswerIsLost : StoreMood::kAnswers;
}

// Processes that the first coordinator had kept, or that had called it again, call the other one.
void Simulation::end_first_coordinator(int first) {
  std::vector<bool> kept;
  kept.reserve(hosts_.size());
  for (int p = 0; p < static_cast<int>(hosts_.size()); ++p) kept.push_back(hears(p, first));
  crash(first);
  if (!host(coordinator_).alive) return;
  for (int p = 0; p < static_cast<int>(hosts_.size()); ++p) {
    const Host& other = host(p);
    const bool calls = other.alive && other.process->id() != kCoordinatorId;
    const bool called = wires_.contains({p, coordinator_}) && !kept[static_cast<std::size_t>(p)];
    if (calls && !called) link(p, coordinator_);
  }
}

void Simulation::happen(std::size_t fault) {
  const Fault& f = scenario_.faults[fault];
  log(-1,
      "fault: " + fault_name(f.kind) + " a " + std::to_string(f.a) + " b " + std::to_string(f.b));
  happened_[fault] = happen(f);
  mark(static_cast<int>(f.kind), static_cast<std::uint64_t>(now_.since_origin.count()));
  // The `lasts` of a clock's drift is in percent, and the drift stays.
  const bool heals = f.kind != FaultKind::kDrift;
  healed_ = std::max(healed_, now_ + (heals ? f.lasts : Duration::zero()));
  notice(When::kFault, -1, static_cast<int>(fault));
}

bool Simulation::happen(const Fault& f) {
  const int a = holder(f.a);
  const int b = holder(f.b);
  const bool lives = host(a).alive;
  switch (f.kind) {
    case FaultKind::kCrash: return crash(a);
    case FaultKind::kVanish: return vanish(a);
    case FaultKind::kRestart:
      if (!lives) restart(f.a);
      return !lives;
    case FaultKind::kPause:
      host(a).paused_until = std::max(host(a).paused_until, now_ + f.lasts);
      return lives;
    case FaultKind::kCut: return cut(a, b, false, f.lasts);
    case FaultKind::kReset: return reset(f, a, b);
    case FaultKind::kRefuse: return refuse_living(a, b, f.lasts);
    case FaultKind::kWitness: return bear_false_witness(a, b);
    case FaultKind::kCutOff: return cut_off(a, f.lasts);
    case FaultKind::kMove: return scenario_.outside && move_coordinator(f.mask, f.lasts);
    case FaultKind::kGrow: return grow();
    case FaultKind::kStranger: return let_in_stranger(f.mask);
    case FaultKind::kSuspend:
      host(a).suspension = f.lasts;
      host(a).looks = f.mask;
      return kHasYieldPoints && lives;
    case FaultKind::kClose: return close_own(a, b, f.mask == 1);
    case FaultKind::kLeave:
      if (!lives || host(a).process->stopped()) return false;
      log(a, "leaves");
      host(a).process->leave();
      return true;
    case FaultKind::kCoordinator:
      if (coordinator_ < 0 || !crash(coordinator_)) return false;
      events_.push({now_ + f.lasts, ++order_, -1, -1, SimEvent::Other::kCoordinator, -1});
      return true;
    case FaultKind::kKick:
    case FaultKind::kDrain:
    case FaultKind::kHold: return order(f, a);
    case FaultKind::kDrift: host(a).drift = f.lasts; return lives;
    default: break;
  }
  CHECK(is_network(f.kind));
  weather_.begin(f, now_);
  return lives;
}

}  // namespace holdfast::sim
