#include "sim/state/state_world.h"

#include <algorithm>
#include <chrono>

namespace holdfast::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A trainer waits for a keeper that does not answer at all so much longer than the keeper would.
constexpr Duration kTakeSlack = milliseconds(10);
// Until others notice that a trainer has ended.
constexpr int kNoticeLow = 5;
constexpr int kNoticeHigh = 40;
constexpr std::uint64_t kMostStateEvents = 400'000;
// After the last fault the job has ended by then, besides what its steps take.
constexpr Duration kLatestEnd = seconds(60);
constexpr int kLatestSteps = 4;

}  // namespace

StateWorld::StateWorld(const StateScenario& scenario, bool with_log)
    : scenario_(scenario), random_(scenario.seed ^ 0x5eed), with_log_(with_log) {
  const auto ranks =
      static_cast<std::size_t>(scenario.hosts) * static_cast<std::size_t>(scenario.per_host);
  hosts_.resize(static_cast<std::size_t>(scenario.hosts));
  trainers_.resize(ranks);
  keepers_.resize(ranks);
  for (int seat = 0; seat < static_cast<int>(ranks); ++seat) {
    world_.push_back(seat);
    start_keeper(seat);
  }
  for (const StateFault& fault : scenario.faults) {
    const std::size_t number = faults_.size();
    faults_.push_back({fault});
    healed_ = std::max(healed_, Instant{fault.at + fault.lasts});
    schedule(fault.at, [this, number] {
      if (faults_[number].fault.moment != StateMoment::kAnytime) {
        faults_[number].due = true;
        return;
      }
      verdict_.faults += strike(faults_[number].fault) ? 1 : 0;
    });
  }
  plan_meeting(milliseconds(1));
}

void StateWorld::schedule(Duration in, Action action) {
  events_.push({now_ + in, ++last_event_, std::move(action)});
}

Duration StateWorld::drawn(int low_ms, int high_ms) {
  const auto span = static_cast<std::uint64_t>(high_ms - low_ms) * 1'000 + 1;
  return milliseconds(low_ms) + std::chrono::microseconds(random_.below(span));
}

std::string StateWorld::seat_text(int seat) const {
  return "rank " + std::to_string(seat) + " of host " + std::to_string(host_of(seat));
}

void StateWorld::log(const std::string& what) {
  happenings_.mix(static_cast<std::uint64_t>(now_.since_origin.count()));
  happenings_.mix(std::string_view(what));
  if (!with_log_) return;
  const auto us = now_.since_origin / std::chrono::microseconds(1);
  std::string time = std::to_string(us / 1'000) + "." + std::to_string(us % 1'000 / 100);
  verdict_.log.push_back(time + " ms: " + what);
}

StateVerdict StateWorld::run() {
  const auto steps = static_cast<std::int64_t>(scenario_.steps);
  const Duration due = kLatestEnd + kLatestSteps * steps * (scenario_.step + scenario_.patience);
  while (!events_.empty() && !over_) {
    const StateEvent event = events_.top();
    events_.pop();
    now_ = event.at;
    event.action();
    if (++verdict_.events > kMostStateEvents) ledger_.wrong("too many events");
    if (now_ > healed_ + due) ledger_.wrong("the job has not ended in time");
    if (!ledger_.violation().empty()) break;
    if (is_over()) break;
  }
  verdict_.violation = ledger_.violation();
  verdict_.commits = ledger_.commits();
  verdict_.flushes = ledger_.flushes();
  verdict_.took = now_.since_origin;
  happenings_.mix(verdict_.events);
  verdict_.hash = happenings_.value();
  return std::move(verdict_);
}

bool StateWorld::is_over() const {
  if (!training_) return false;
  return std::all_of(world_.begin(), world_.end(), [&](int seat) {
    const SimTrainer& one = trainers_[static_cast<std::size_t>(seat)];
    return one.alive && one.step >= scenario_.steps && !one.taking;
  });
}

// A step ends for all once all are in it: training has collectives.
void StateWorld::enter(int seat) {
  trainer(seat).entered = true;
  for (const int other : world_) {
    if (!trainer(other).entered) return;
  }
  for (const int other : world_) {
    const std::uint32_t life = life_;
    const std::uint64_t step = trainer(other).step;
    schedule(scenario_.step + drawn(0, 5), [this, other, life, step] {
      const bool goes_on = training_ && life == life_ && trainer(other).alive;
      if (goes_on && trainer(other).step == step) finish_step(other);
    });
  }
}

void StateWorld::finish_step(int seat) {
  SimTrainer& one = trainer(seat);
  ++one.step;
  one.entered = false;
  take(seat);
}

void StateWorld::take(int seat) {
  SimTrainer& one = trainer(seat);
  one.taking = true;
  one.since = now_;
  const std::uint64_t step = one.step;
  if (!keeper(seat).alive) return returned(seat, step, false);
  const std::uint32_t life = life_;
  schedule(scenario_.patience + kTakeSlack, [this, seat, step, life] {
    if (life == life_) returned(seat, step, false);
  });
  when_running(seat, [this, seat, step] { tell(seat, ft::TakeAsked{step, 0}); });
}

void StateWorld::returned(int seat, std::uint64_t step, bool is_safe) {
  SimTrainer& one = trainer(seat);
  if (!training_ || !one.alive || !one.taking || one.step != step) return;
  one.taking = false;
  if (now_ - one.since > scenario_.patience + kTakeSlack) {
    ledger_.wrong("S4: take() has waited longer than its patience");
  }
  if (is_safe) {
    // It may not have noticed yet, even less while it was stopped.
    const Instant noticed = now_ + Duration(-milliseconds(2 * kNoticeHigh));
    const bool was_stopped = keeper(seat).resumed_at > noticed;
    const auto is_there = [&](const PartHolder& holder) {
      const SimKeeper& other = keeper(holder.place);
      const bool same = other.alive && other.incarnation == holder.incarnation;
      return same || was_stopped || other.lost_at > noticed;
    };
    ledger_.promise(life_, one.taken, is_there, "S2: " + seat_text(seat));
  }
  one.taken = step;
  if (one.step < scenario_.steps) enter(seat);
}

void StateWorld::kill_trainer(int seat) {
  SimTrainer& one = trainer(seat);
  if (!one.alive) return;
  log(seat_text(seat) + ": the trainer is killed");
  one.alive = one.has_state = false;
  ++one.incarnation;
  one.taking = one.entered = false;
  schedule(drawn(kNoticeLow, kNoticeHigh), [this] { stop_training(); });
  // Its keeper sees the connection close.
  const std::uint32_t incarnation = keeper(seat).incarnation;
  schedule(drawn(0, 3), [this, seat, incarnation] {
    if (keeper(seat).incarnation != incarnation || trainer(seat).alive) return;
    const bool all =
        std::none_of(world_.begin(), world_.end(), [&](int other) { return trainer(other).alive; });
    when_running(seat, [this, seat, all] { tell(seat, ft::TrainerGone{all}); });
  });
}

// The living notice, leave their calls, and come back for what they go on from.
void StateWorld::stop_training() {
  if (training_) {
    training_ = false;
    log("training stops");
    for (const int seat : world_) {
      SimTrainer& one = trainer(seat);
      one.taking = one.entered = false;
      if (!one.alive || !keeper(seat).alive) continue;
      when_running(seat, [this, seat] { tell(seat, ft::TrainerGone{false}); });
    }
  }
  for (const int seat : world_) {
    if (trainer(seat).alive) continue;
    schedule(drawn(20, 200), [this, seat] {
      if (host(host_of(seat)).up) trainer(seat).alive = true;
    });
  }
  plan_meeting(drawn(20, 60));
}

StateVerdict simulate_state(const StateScenario& scenario, bool with_log) {
  return StateWorld(scenario, with_log).run();
}

}  // namespace holdfast::sim
