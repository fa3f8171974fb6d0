// Simulation: runs a scenario in virtual time and judges it. The same scenario gives the same run,
// event by event, on every machine. It follows FoundationDB's simulator (Zhou et al. 2021).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/ledger.h"
#include "sim/scenario.h"

namespace holdfast::sim {

// One world in so many has processes that cannot map the memory that others share.
inline constexpr std::uint64_t kCrampedWorlds = 8;

struct RunVerdict {
  std::string violation;   // empty: none
  std::uint64_t hash = 0;  // of every step and fault with its time, every frame and result
  std::uint64_t events = 0;
  std::uint64_t ops = 0;  // ops that ended, on all processes together
  int views = 0;          // the highest epoch
  // By fault: whether it has happened, and changed something.
  std::vector<bool> fired;
  int admitted = 0;  // processes that joined late; `sharing`: those of them that share memory
  int sharing = 0;
  int stopped = 0;  // processes whose program was ended: voted out, timed out
  Duration took{};  // virtual time
  std::map<std::pair<int, int>, FloatSum> float_sums;  // as the ledger has them
  std::vector<std::string> log;

  bool ok() const { return violation.empty(); }
};

// `with_log`: events are logged line by line.
RunVerdict simulate(const Scenario& scenario, bool with_log = false);

// The scenario without the faults and sizes that its violation does not need.
Scenario shrink(const Scenario& scenario);
// The scenario without this fault and those that wait for it, or for one of those.
Scenario without_fault(const Scenario& scenario, std::size_t index);

}  // namespace holdfast::sim
