// Weighted averages when ranks are lost: in simulated worlds each part of a result is the average,
// by their weights, of exactly ranks that the outcome allows in it (sim/float_data.h), whenever a
// rank dies; and all members have the same bits.
#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "sanitized.h"
#include "sim/program.h"
#include "sim/simulation.h"

namespace holdfast::sim {
namespace {

using std::chrono::microseconds;

constexpr int kSteps = 3;

// How many weighted ops the ranks of the world call.
int weighted_ops(const Scenario& scenario) {
  int count = 0;
  for (int step = 0; step < scenario.steps; ++step) {
    for (const ProgramOp& op : make_step(scenario, step, ProgramPart::kWhole, scenario.ranks)) {
      count += op.weighted ? 1 : 0;
    }
  }
  return count;
}

// The first worlds from `seed` on that call weighted ops.
Scenario weighing_world(std::uint64_t& seed, bool flat) {
  Scenario scenario;
  do {
    scenario = {};
    scenario.seed = seed++;
    scenario.ranks = 3 + static_cast<int>(scenario.seed % 3);
    scenario.steps = kSteps;
    scenario.elements = 60;
    scenario.flat = flat;
    scenario.hosts = flat ? 1 : 2;
    scenario.blocking = scenario.seed % 2 == 0;
  } while (weighted_ops(scenario) == 0);
  return scenario;
}

void expect_kept(const Scenario& scenario) {
  const RunVerdict verdict = simulate(scenario);
  INFO(to_text(scenario));
  CHECK(verdict.violation == "");
}

// A rank dies at one of many instants, from the first message of an op to its last.
TEST_CASE("whoever is in a part has its weight in it, whenever a rank dies") {
  const int worlds = testing::kSanitized ? 2 : 8;
  for (const bool flat : {false, true}) {
    std::uint64_t seed = 100;
    for (int world = 0; world < worlds; ++world) {
      Scenario scenario = weighing_world(seed, flat);
      const RunVerdict calm = simulate(scenario);
      REQUIRE(calm.violation == "");
      for (int part = 0; part < 40; ++part) {
        scenario.faults = {{FaultKind::kCrash, calm.took * part / 40, part % scenario.ranks}};
        expect_kept(scenario);
      }
    }
  }
}

TEST_CASE("two ranks die one after the other, the second one while the first is mourned") {
  const int worlds = testing::kSanitized ? 2 : 8;
  std::uint64_t seed = 500;
  for (int world = 0; world < worlds; ++world) {
    Scenario scenario = weighing_world(seed, world % 2 == 0);
    const RunVerdict calm = simulate(scenario);
    for (int part = 0; part < 20; ++part) {
      const Duration at = calm.took * part / 20;
      scenario.faults = {
          {FaultKind::kCrash, at, part % scenario.ranks},
          {FaultKind::kCrash, at + microseconds(40 * part), (part + 1) % scenario.ranks}};
      expect_kept(scenario);
    }
  }
}

}  // namespace
}  // namespace holdfast::sim
