// Simulated jobs with snapshots: a smoke set of seeds, and bugs that are planted.
#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "base/planted.h"
#include "sanitized.h"
#include "sim/state/state_simulation.h"

namespace holdfast::sim {
namespace {

constexpr std::uint64_t kStateSmoke = testing::kSanitized ? 200 : 4'000;

std::uint64_t state_number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST_CASE("what take() promises is there, whatever becomes of keepers, hosts and disks") {
  const std::uint64_t first = state_number("STATE_FROM", 1);
  const std::uint64_t count = state_number("STATE_COUNT", kStateSmoke);
  std::uint64_t planned = 0;
  StateVerdict all;
  std::uint64_t given_up = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const StateScenario scenario = make_state_scenario(seed);
    const StateVerdict verdict = simulate_state(scenario);
    planned += scenario.faults.size();
    all.events += verdict.events;
    all.commits += verdict.commits;
    all.flushes += verdict.flushes;
    all.restores += verdict.restores;
    all.decoded += verdict.decoded;
    all.stored += verdict.stored;
    all.doubts += verdict.doubts;
    all.faults += verdict.faults;
    given_up += verdict.given_up.empty() ? 0 : 1;
    CAPTURE(seed);
    CHECK(verdict.violation == "");
  }
  MESSAGE(all.faults, " of ", planned, " faults met something, ", all.events, " events, ",
          all.commits, " commits, ", all.flushes, " flushes, ", all.restores, " restores, ",
          all.decoded, " ranks decoded, ", all.stored, " from files, ", all.doubts, " settled, ",
          given_up, " worlds lost all");
  CHECK(all.faults * 100 >= planned * 60);
  CHECK(all.decoded > count / 4);
  CHECK(all.stored > count / 10);
  CHECK(all.doubts > count / 50);
  CHECK(given_up * 5 < count);
}

TEST_CASE("the same seed gives the same job") {
  std::size_t lines = 0;
  for (std::uint64_t seed = 1; seed < 50; ++seed) {
    const StateScenario scenario = make_state_scenario(seed);
    const StateVerdict a = simulate_state(scenario);
    const StateVerdict b = simulate_state(scenario, true);
    CHECK(a.hash == b.hash);
    CHECK(a.events == b.events);
    lines += b.log.size();
  }
  CHECK(lines > 1'000);
}

struct StateRow {
  Planted bug;
  const char* name;
  std::uint64_t worlds;  // within which it must be caught
};

constexpr StateRow kStateRows[] = {
    {Planted::kOverNewest, "overwrite the newest committed snapshot", 100},
    {Planted::kOverRead, "overwrite a snapshot that is read", 500},
    {Planted::kCommitAlone, "commit without the agreement of all", 3'000},
    {Planted::kForgetDoubt, "drop what others may have committed", 3'000},
    {Planted::kReturnEarly, "take() returns too early", 100},
    {Planted::kCountStopped, "count parity without a stopped keeper", 3'000},
    {Planted::kMixSteps, "choose a mix of steps", 1'000},
    {Planted::kAnyHashes, "accept a part with other hashes", 3'000},
    {Planted::kRemoveFirst, "remove older files first", 3'000},
    {Planted::kManifestFirst, "a manifest before its files", 5'000},
};

std::optional<std::uint64_t> state_caught_by(const StateRow& row) {
  for (std::uint64_t seed = 1; seed <= row.worlds; ++seed) {
    planted = row.bug;
    const bool shows = !simulate_state(make_state_scenario(seed)).ok();
    planted = Planted::kNone;
    if (shows) return seed;
  }
  return std::nullopt;
}

TEST_CASE("bugs that are planted in snapshots are caught" * doctest::skip(testing::kSanitized)) {
  for (const StateRow& row : kStateRows) {
    const auto seed = state_caught_by(row);
    const std::string name = row.name;
    CAPTURE(name);
    CHECK(seed.has_value());
    MESSAGE(name, ": world ", seed.value_or(0), " of ", row.worlds);
  }
}

}  // namespace
}  // namespace holdfast::sim
