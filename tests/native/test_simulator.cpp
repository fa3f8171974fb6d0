// Simulated worlds: a smoke set of seeds, and every seed that once found a bug.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "base/planted.h"
#include "sanitized.h"
#include "sim/simulation.h"

namespace holdfast::sim {
namespace {

constexpr std::uint64_t kWorlds = testing::kSanitized ? 100 : 500;

void expect_ok(std::uint64_t seed) {
  const Scenario scenario = make_scenario(seed);
  const Verdict verdict = simulate(scenario);
  INFO(to_text(scenario));
  INFO("seed ", seed);
  CHECK(verdict.violation == "");
}

TEST_CASE("a smoke set of seeds keeps the guarantees") {
  const char* from = std::getenv("SIM_FROM");
  const char* count = std::getenv("SIM_COUNT");
  const std::uint64_t first = from != nullptr ? std::strtoull(from, nullptr, 10) : 1;
  const std::uint64_t number = count != nullptr ? std::strtoull(count, nullptr, 10) : kWorlds;
  for (std::uint64_t seed = first; seed < first + number; ++seed) expect_ok(seed);
}

TEST_CASE("the same seed gives the same run") {
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    const Verdict a = simulate(make_scenario(seed));
    const Verdict b = simulate(make_scenario(seed));
    CHECK(a.hash == b.hash);
    CHECK(a.events == b.events);
  }
}

// Two coordinators at the same time: the two lowest ranks lose sight of each other.
Scenario duel(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 4 + static_cast<int>(seed % 5);
  scenario.advances = true;
  scenario.faults = {{FaultKind::kCut, std::chrono::microseconds(seed % 3000), 1, 0, 0, {}}};
  return scenario;
}

// Some leave between two ops, one after the other, and a coordinator tells the others at once.
Scenario partings(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 3 + static_cast<int>(seed % 4);
  scenario.outside = true;
  scenario.advances = false;
  scenario.faults.clear();
  for (int rank = 0; rank < scenario.ranks - 1; ++rank) {
    const auto at = seed * 379 + static_cast<std::uint64_t>(rank) * 211;
    scenario.faults.push_back(
        {FaultKind::kLeave, std::chrono::microseconds(at % 2000), rank, 0, 0, {}});
  }
  return scenario;
}

// Ranks of one host that share memory; one dies, and comes back.
Scenario homecoming(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 2 + static_cast<int>(seed % 4);
  scenario.steps = 12;
  scenario.hosts = 1;
  scenario.flat = scenario.advances = true;
  scenario.raise = false;
  const auto rank = static_cast<int>(seed / 4 % static_cast<std::uint64_t>(scenario.ranks));
  const std::chrono::microseconds dies(seed * 379 % 1000);
  const std::chrono::microseconds starts = dies + std::chrono::microseconds(seed * 211 % 500);
  scenario.faults = {{FaultKind::kCrash, dies, rank, 0, 0, {}},
                     {FaultKind::kRestart, starts, rank, 0, 0, {}}};
  return scenario;
}

// So that one of the ranks cannot map what others share.
constexpr std::uint64_t cramped(std::uint64_t seed) { return seed * kCrampedWorlds + 1; }

Scenario world_for(Planted bug, std::uint64_t seed) {
  if (bug == Planted::kShareAlone) return homecoming(cramped(seed));
  if (bug == Planted::kForgetVote || bug == Planted::kIgnoreBallot) return duel(seed);
  return bug == Planted::kLeaveAtOnce ? partings(seed) : make_scenario(seed);
}

// The world that shows it; nothing: none of them does.
std::optional<std::uint64_t> caught_by(Planted bug) {
  const std::uint64_t first = 1;
  std::optional<std::uint64_t> caught;
  planted = bug;
  for (std::uint64_t seed = first; seed < first + 4000 && !caught; ++seed) {
    if (!simulate(world_for(bug, seed)).ok()) caught = seed;
  }
  planted = Planted::kNone;
  return caught;
}

TEST_CASE("planted bugs are caught" * doctest::skip(testing::kSanitized)) {
  for (int i = 1; i < kPlantedCount; ++i) {
    const auto seed = caught_by(static_cast<Planted>(i));
    CAPTURE(i);
    REQUIRE(seed.has_value());
    MESSAGE("planted bug ", i, " shows in world ", *seed);
  }
}

TEST_CASE("a coordinator outside the view may die, and another one take its place") {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    CAPTURE(seed);
    CHECK(simulate(with_coordinator(seed)).violation == "");
  }
}

TEST_CASE("two coordinators never decide the same epoch in two ways") {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    CAPTURE(seed);
    CHECK(simulate(duel(seed)).violation == "");
  }
}

TEST_CASE("a rank that comes back shares memory again, unless one of them cannot") {
  int admitted = 0;
  int sharing = 0;
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    CAPTURE(seed);
    const Verdict verdict = simulate(homecoming(seed));
    CHECK(verdict.violation == "");
    if (seed % kCrampedWorlds == 1) continue;
    admitted += verdict.admitted;
    sharing += verdict.sharing;
  }
  CHECK(admitted > 0);
  CHECK(sharing == admitted);
  MESSAGE(admitted, " newcomers");
}

TEST_CASE("what a leaver takes along, the others have") {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    CAPTURE(seed);
    CHECK(simulate(partings(seed)).violation == "");
  }
}

TEST_CASE("seeds that once found a bug find none") {
  std::ifstream file(SIM_SEEDS);
  REQUIRE(file.is_open());
  std::string line;
  int count = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    expect_ok(std::stoull(line));
    ++count;
  }
  CHECK(count > 0);
}

TEST_CASE("a scenario survives being written down") {
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    const Scenario scenario = make_scenario(seed);
    const auto read = parse_scenario(to_text(scenario));
    REQUIRE(read.is_ok());
    CHECK(read.value() == scenario);
  }
}

}  // namespace
}  // namespace holdfast::sim
