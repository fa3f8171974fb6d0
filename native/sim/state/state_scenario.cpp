#include "sim/state/state_scenario.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <sstream>

#include "sim/random.h"

namespace holdfast::sim {
namespace {

using std::chrono::milliseconds;

constexpr std::array<const char*, kStateFaultKinds> kFaultNames = {
    "kill_trainer",  "kill_keeper", "lose_host", "lose_most", "lose_more",
    "kill_trainers", "kill_all",    "power_off", "disk_full", "stop_keeper",
    "flip_memory",   "scribble",    "flip_file", "swap_file"};
constexpr std::array<const char*, kStateMoments> kMomentNames = {
    "anytime", "capturing", "coding", "closing", "flushing", "restoring"};
// Worlds of seeds of their own.
constexpr std::uint64_t kStateWorlds = 0x57a7e;

// Most faults are of processes and hosts.
StateFaultKind draw_kind(Random& random) {
  if (random.chance(60)) return static_cast<StateFaultKind>(random.below(4));
  return static_cast<StateFaultKind>(random.below(kStateFaultKinds));
}

StateFault draw_state_fault(Random& random, const StateScenario& s) {
  StateFault f;
  f.kind = draw_kind(random);
  const bool any = random.chance(50);
  f.moment = any ? StateMoment::kAnytime : static_cast<StateMoment>(random.below(kStateMoments));
  const auto whole = static_cast<std::uint64_t>(s.step / milliseconds(1)) * s.steps;
  f.at = milliseconds(random.below(whole + 1));
  f.place = static_cast<int>(random.below(16));
  f.lasts = milliseconds(10 + random.below(random.chance(50) ? 400 : 4'000));
  f.returns = random.chance(75);
  return f;
}

}  // namespace

std::string state_fault_name(StateFaultKind kind) {
  return kFaultNames.at(static_cast<std::size_t>(kind));
}

std::string state_moment_name(StateMoment moment) {
  return kMomentNames.at(static_cast<std::size_t>(moment));
}

StateScenario make_state_scenario(std::uint64_t seed) {
  Random random(seed * 2 + 1 + kStateWorlds);
  StateScenario s;
  s.seed = seed;
  s.parity = random.chance(5) ? 0 : 1 + static_cast<int>(random.below(random.chance(70) ? 1 : 3));
  s.data = 1 + static_cast<int>(random.below(4));
  const int parts = s.data + s.parity;
  s.hosts = parts + static_cast<int>(random.below(random.chance(60) ? 1 : 4));
  s.per_host = random.chance(70) ? 1 : 2;
  s.slots = random.chance(50) ? 2 : 3;
  s.steps = 4 + random.below(random.chance(80) ? 12 : 40);
  s.flush_every = random.chance(70) ? 1 + random.below(5) : 0;
  s.shared = random.chance(20);
  s.shards = 1 + static_cast<int>(random.below(4 * static_cast<std::uint64_t>(s.hosts)));
  s.step = milliseconds(20 + random.below(200));
  s.patience = milliseconds(50 + random.below(1'000));
  s.failing = random.chance(20) ? static_cast<int>(random.below(20)) : 0;
  for (auto left = random.below(6); left > 0; --left) {
    s.faults.push_back(draw_state_fault(random, s));
  }
  s.replicas = random.chance(15);
  return s;
}

std::string to_text(const StateScenario& s) {
  const auto ms = [](Duration time) { return std::to_string(time / milliseconds(1)) + " ms"; };
  std::ostringstream out;
  out << "seed " << s.seed << "\nhosts " << s.hosts << " with " << s.per_host
      << " ranks each\ncode " << s.data << " + " << s.parity << ", " << s.slots
      << " generations\nsteps " << s.steps << " of " << ms(s.step) << ", patience "
      << ms(s.patience) << "\n";
  if (s.flush_every > 0) out << "flush every " << s.flush_every << " steps";
  if (s.flush_every == 0) out << "flush after crashes";
  out << (s.shared ? " to one storage of all\n" : " to local disks\n") << "shards " << s.shards
      << "\n";
  if (s.replicas) out << "every rank has all of the state\n";
  if (s.failing > 0) out << s.failing << " % of captures fail\n";
  for (const StateFault& f : s.faults) {
    out << state_fault_name(f.kind) << " from " << ms(f.at) << ", " << state_moment_name(f.moment)
        << ", place " << f.place << ", lasts " << ms(f.lasts)
        << (f.returns ? "" : ", does not return") << "\n";
  }
  return out.str();
}

}  // namespace holdfast::sim
