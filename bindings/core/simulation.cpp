#include "simulation.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gil.h"
#include "raise.h"
#include "sim/lanes/lane_simulation.h"
#include "sim/simulation.h"
#include "sim/state/state_simulation.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

nb::dict run_world(const std::string& scenario, bool with_log) {
  const sim::Scenario parsed = value_or_raise(sim::parse_scenario(scenario));
  sim::RunVerdict verdict;
  {
    const GilReleased released;
    verdict = sim::simulate(parsed, with_log);
  }
  nb::dict result;
  result["violation"] = verdict.violation;
  result["hash"] = verdict.hash;
  result["events"] = verdict.events;
  result["ops"] = verdict.ops;
  result["views"] = verdict.views;
  result["admitted"] = verdict.admitted;
  result["stopped"] = verdict.stopped;
  result["seconds"] = std::chrono::duration<double>(verdict.took).count();
  result["log"] = verdict.log;
  return result;
}

sim::Scenario scenario_of(std::uint64_t seed, bool outside) {
  return outside ? sim::with_coordinator(seed) : sim::make_scenario(seed);
}

// Worlds of consecutive seeds: (ops that ended, [(seed, violation)], [hash of each]).
nb::tuple run_worlds(std::uint64_t first, std::uint64_t count, bool outside) {
  std::uint64_t ops = 0;
  std::vector<std::pair<std::uint64_t, std::string>> violations;
  std::vector<std::uint64_t> hashes;
  {
    const GilReleased released;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      const sim::RunVerdict verdict = sim::simulate(scenario_of(seed, outside));
      ops += verdict.ops;
      hashes.push_back(verdict.hash);
      if (!verdict.ok()) violations.emplace_back(seed, verdict.violation);
    }
  }
  return nb::make_tuple(ops, violations, hashes);
}

nb::dict run_lanes(std::uint64_t seed) {
  sim::LaneVerdict verdict;
  {
    const GilReleased released;
    verdict = sim::simulate_lanes(sim::make_lane_scenario(seed), true);
  }
  nb::dict result;
  result["violation"] = verdict.violation;
  result["hash"] = verdict.hash;
  result["steps"] = verdict.steps;
  result["frames"] = verdict.frames;
  result["connections"] = verdict.lanes;
  result["sent_again"] = verdict.again;
  result["seconds"] = std::chrono::duration<double>(verdict.took).count();
  result["log"] = verdict.log;
  return result;
}

// As run_worlds, with the frames that arrived in place of ops.
nb::tuple run_lane_worlds(std::uint64_t first, std::uint64_t count) {
  std::uint64_t frames = 0;
  std::vector<std::pair<std::uint64_t, std::string>> violations;
  std::vector<std::uint64_t> hashes;
  {
    const GilReleased released;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      const sim::LaneVerdict verdict = sim::simulate_lanes(sim::make_lane_scenario(seed));
      frames += verdict.frames;
      hashes.push_back(verdict.hash);
      if (!verdict.ok()) violations.emplace_back(seed, verdict.violation);
    }
  }
  return nb::make_tuple(frames, violations, hashes);
}

nb::dict run_state(std::uint64_t seed) {
  sim::StateVerdict verdict;
  {
    const GilReleased released;
    verdict = sim::simulate_state(sim::make_state_scenario(seed), true);
  }
  nb::dict result;
  result["violation"] = verdict.violation;
  result["hash"] = verdict.hash;
  result["events"] = verdict.events;
  result["commits"] = verdict.commits;
  result["flushes"] = verdict.flushes;
  result["restores"] = verdict.restores;
  result["given_up"] = verdict.given_up;
  result["seconds"] = std::chrono::duration<double>(verdict.took).count();
  result["log"] = verdict.log;
  return result;
}

// As run_worlds, with the snapshots that were committed in place of ops.
nb::tuple run_state_worlds(std::uint64_t first, std::uint64_t count) {
  std::uint64_t commits = 0;
  std::vector<std::pair<std::uint64_t, std::string>> violations;
  std::vector<std::uint64_t> hashes;
  {
    const GilReleased released;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
      const sim::StateVerdict verdict = sim::simulate_state(sim::make_state_scenario(seed));
      commits += verdict.commits;
      hashes.push_back(verdict.hash);
      if (!verdict.ok()) violations.emplace_back(seed, verdict.violation);
    }
  }
  return nb::make_tuple(commits, violations, hashes);
}

std::string shrink(const std::string& scenario) {
  const sim::Scenario parsed = value_or_raise(sim::parse_scenario(scenario));
  const GilReleased released;
  return sim::to_text(sim::shrink(parsed));
}

}  // namespace

void bind_simulation(nb::module_& m) {
  m.def(
      "make_scenario",
      [](std::uint64_t seed, bool outside) { return sim::to_text(scenario_of(seed, outside)); },
      "seed"_a, "outside"_a = false);
  m.def("simulate", run_world, "scenario"_a, "with_log"_a = false);
  m.def("simulate_many", run_worlds, "first"_a, "count"_a, "outside"_a = false);
  m.def("shrink_scenario", shrink, "scenario"_a);
  m.def(
      "make_lane_scenario",
      [](std::uint64_t seed) { return sim::to_text(sim::make_lane_scenario(seed)); }, "seed"_a);
  m.def("simulate_lanes", run_lanes, "seed"_a);
  m.def("simulate_many_lanes", run_lane_worlds, "first"_a, "count"_a);
  m.def(
      "make_state_scenario",
      [](std::uint64_t seed) { return sim::to_text(sim::make_state_scenario(seed)); }, "seed"_a);
  m.def("simulate_state", run_state, "seed"_a);
  m.def("simulate_many_states", run_state_worlds, "first"_a, "count"_a);
}

}  // namespace holdfast::bindings
