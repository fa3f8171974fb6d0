// State simulation: runs a job's trainers, keepers, hosts and disks in virtual time, under faults,
// with the state machines of production, and judges every commit, flush and restore. The same
// scenario gives the same run on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/state/state_scenario.h"

namespace holdfast::sim {

struct StateVerdict {
  std::string violation;   // empty: none
  std::uint64_t hash = 0;  // of what happened, with its time
  std::uint64_t events = 0;
  std::uint64_t commits = 0;   // snapshots that count
  std::uint64_t flushes = 0;   // that all hosts have verified
  std::uint64_t restores = 0;  // that ended
  std::uint64_t decoded = 0;   // ranks whose state was
  std::uint64_t stored = 0;    // ranks whose state came from files
  std::uint64_t doubts = 0;    // snapshots that were settled afterwards
  std::uint64_t faults = 0;    // that met something
  std::string given_up;        // the error that all were told, where nothing was left
  Duration took{};             // virtual time
  std::vector<std::string> log;

  bool ok() const { return violation.empty(); }
};

StateVerdict simulate_state(const StateScenario& scenario, bool with_log = false);

}  // namespace holdfast::sim
