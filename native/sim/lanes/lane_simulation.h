// Lane simulation: runs a trunk and its connections in virtual time, under faults, and judges what
// arrives. The same scenario gives the same run, event by event, on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/lanes/lane_scenario.h"

namespace holdfast::sim {

struct LaneVerdict {
  std::string violation;   // empty: none
  std::uint64_t hash = 0;  // of every step with its time, and of what it moved
  std::uint64_t steps = 0;
  std::uint64_t frames = 0;  // that arrived
  std::uint64_t lanes = 0;   // connections that were made
  std::uint64_t again = 0;   // bytes that were sent again
  std::uint64_t faults = 0;  // that met something
  Duration took{};           // virtual time
  Duration late{};           // after the last fault and the last frame, until all had arrived
  std::vector<std::string> log;

  bool ok() const { return violation.empty(); }
};

LaneVerdict simulate_lanes(const LaneScenario& scenario, bool with_log = false);

}  // namespace holdfast::sim
