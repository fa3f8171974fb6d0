// Simulated trunks: a smoke set of seeds, seeds that once found a bug, and bugs that are planted.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/planted.h"
#include "sanitized.h"
#include "sim/lanes/lane_simulation.h"

namespace holdfast::sim {
namespace {

constexpr std::uint64_t kLaneSmoke = testing::kSanitized ? 200 : 5'000;

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST_CASE("a trunk delivers every frame once and in order, whatever becomes of its lanes") {
  const std::uint64_t first = number_of("LANES_FROM", 1);
  const std::uint64_t count = number_of("LANES_COUNT", kLaneSmoke);
  std::uint64_t planned = 0;
  std::uint64_t met = 0;
  std::uint64_t frames = 0;
  std::uint64_t lanes = 0;
  std::uint64_t again = 0;
  std::uint64_t steps = 0;
  Duration latest{};
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const LaneScenario scenario = make_lane_scenario(seed);
    const LaneVerdict verdict = simulate_lanes(scenario);
    planned += scenario.faults.size();
    met += verdict.faults;
    frames += verdict.frames;
    lanes += verdict.lanes;
    again += verdict.again > 0 ? 1 : 0;
    steps += verdict.steps;
    latest = std::max(latest, verdict.late);
    CAPTURE(seed);
    CHECK(verdict.violation == "");
  }
  MESSAGE(met, " of ", planned, " faults met something, ", frames, " frames, ", lanes,
          " connections, ", again, " worlds sent again, ", steps, " steps, latest ",
          latest / std::chrono::milliseconds(1), " ms");
  CHECK(met * 100 >= planned * 80);
  CHECK(again * 100 >= count * 30);
}

// A connection that had ended unheard kept frames, and nothing was unanswered there.
TEST_CASE("what a dead lane keeps is found, though its kernel waits for nothing") {
  for (const std::uint64_t seed : {1'201'268U, 1'365'668U, 1'770'901U}) {
    CAPTURE(seed);
    CHECK(simulate_lanes(make_lane_scenario(seed)).violation == "");
  }
}

TEST_CASE("the same seed gives the same lanes") {
  std::size_t lines = 0;
  for (std::uint64_t seed = 1; seed < 100; ++seed) {
    const LaneScenario scenario = make_lane_scenario(seed);
    const LaneVerdict a = simulate_lanes(scenario);
    const LaneVerdict b = simulate_lanes(scenario, true);
    CHECK(a.hash == b.hash);
    CHECK(a.steps == b.steps);
    lines += b.log.size();
  }
  CHECK(lines > 1'000);
}

struct LaneRow {
  Planted bug;
  const char* name;
  std::uint64_t worlds;  // within which it must be caught
};

constexpr LaneRow kLaneRows[] = {
    {Planted::kSkipReplayed, "skip a replayed frame", 50},
    {Planted::kDeliverTwice, "deliver a frame twice", 200},
    {Planted::kConfirmAhead, "confirm what has not come", 200},
    {Planted::kEarlyGoodbye, "a goodbye that overtakes", 30'000},
    {Planted::kNoSurplus, "both end lanes that are too many", 2'000},
    {Planted::kKeepStalled, "keep what a stalled lane carries", 200},
};

std::optional<std::uint64_t> caught_by(const LaneRow& row) {
  for (std::uint64_t seed = 1; seed <= row.worlds; ++seed) {
    planted = row.bug;
    const bool shows = !simulate_lanes(make_lane_scenario(seed)).ok();
    planted = Planted::kNone;
    if (shows) return seed;
  }
  return std::nullopt;
}

TEST_CASE("bugs that are planted in trunks are caught" * doctest::skip(testing::kSanitized)) {
  for (const LaneRow& row : kLaneRows) {
    const auto seed = caught_by(row);
    const std::string name = row.name;
    CAPTURE(name);
    CHECK(seed.has_value());
    MESSAGE(name, ": world ", seed.value_or(0), " of ", row.worlds);
  }
}

}  // namespace
}  // namespace holdfast::sim
