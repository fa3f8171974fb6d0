// Simulated worlds: a smoke set of seeds, stories, and every world that once found a bug.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sanitized.h"
#include "sim/simulation.h"

namespace holdfast::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kWorlds = testing::kSanitized ? 40 : 200;
// Of the faults that scenarios plan, so many percent must happen.
constexpr std::uint64_t kFired = 90;

Scenario read_scenario(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto scenario = parse_scenario(text.str());
  INFO(path.string());
  REQUIRE(scenario.is_ok());
  return std::move(scenario).value();
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void expect_ok(const Scenario& scenario) {
  const RunVerdict verdict = simulate(scenario);
  INFO(to_text(scenario));
  CHECK(verdict.violation == "");
}

struct Share {
  std::uint64_t planned = 0;
  std::uint64_t fired = 0;
};

template <class Make>
Share run_worlds(const std::string& kind, Make make) {
  const char* from = std::getenv("SIM_FROM");
  const char* count = std::getenv("SIM_COUNT");
  const std::uint64_t first = from != nullptr ? std::strtoull(from, nullptr, 10) : 1;
  const std::uint64_t number = count != nullptr ? std::strtoull(count, nullptr, 10) : kWorlds;
  Share share;
  for (std::uint64_t seed = first; seed < first + number; ++seed) {
    const Scenario scenario = make(seed);
    const RunVerdict verdict = simulate(scenario);
    share.planned += scenario.faults.size();
    share.fired +=
        static_cast<std::uint64_t>(std::count(verdict.fired.begin(), verdict.fired.end(), true));
    INFO(kind, " ", seed, "\n", to_text(scenario));
    CHECK(verdict.violation == "");
  }
  return share;
}

TEST_CASE("a smoke set of seeds keeps the guarantees, and its faults do happen") {
  const Share share = run_worlds("members", make_scenario);
  MESSAGE(share.fired, " of ", share.planned, " faults happened");
  CHECK(share.fired * 100 >= share.planned * kFired);
}

TEST_CASE("a coordinator outside the view may die, and another one take its place") {
  const Share share = run_worlds("coordinator", with_coordinator);
  CHECK(share.fired * 100 >= share.planned * kFired);
}

TEST_CASE("the same seed gives the same run") {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    const RunVerdict a = simulate(make_scenario(seed));
    const RunVerdict b = simulate(make_scenario(seed));
    CHECK(a.hash == b.hash);
    CHECK(a.events == b.events);
  }
}

// G7: the order of arrival must not show, and it does in sums of floats if it is the order of sums.
TEST_CASE("the same ops in the same view give the same bits, however late messages are") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= kWorlds / 2; ++seed) {
    Scenario scenario = make_scenario(seed);
    if (scenario.ranks > 9) continue;
    scenario.faults.clear();
    const RunVerdict first = simulate(scenario);
    scenario.delays = 1;
    const RunVerdict second = simulate(scenario);
    CAPTURE(seed);
    CHECK(first.violation == "");
    CHECK(first.float_sums == second.float_sums);
    compared += first.float_sums.size();
  }
  CHECK(compared > 100);
}

// Two coordinators at the same time: the two lowest ranks lose sight of each other.
Scenario duel(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 4 + static_cast<int>(seed % 5);
  scenario.advances = true;
  scenario.elastic = scenario.subgroup = scenario.two_worlds = false;
  Fault cut{FaultKind::kCut, std::chrono::microseconds(seed % 300), 1, 0, 0, {}};
  cut.trigger = {When::kBegins, static_cast<int>(seed % 3) * 10, 1, kAnybody};
  scenario.faults = {cut};
  return scenario;
}

TEST_CASE("two coordinators never decide the same epoch in two ways") { run_worlds("duel", duel); }

// Some leave between two ops, one after the other, and a coordinator tells the others at once.
Scenario partings(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 3 + static_cast<int>(seed % 4);
  scenario.outside = true;
  scenario.advances = scenario.elastic = scenario.subgroup = scenario.two_worlds = false;
  scenario.faults.clear();
  for (int rank = 0; rank < scenario.ranks - 1; ++rank) {
    const auto at = seed * 379 + static_cast<std::uint64_t>(rank) * 211;
    scenario.faults.push_back(
        {FaultKind::kLeave, std::chrono::microseconds(at % 2000), rank, 0, 0, {}});
  }
  return scenario;
}

TEST_CASE("what a leaver takes along, the others have") { run_worlds("partings", partings); }

// Ranks of one host that share memory; one dies, and comes back.
Scenario homecoming(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 2 + static_cast<int>(seed % 4);
  scenario.steps = 12;
  scenario.hosts = 1;
  scenario.flat = scenario.advances = true;
  scenario.raise = scenario.elastic = scenario.subgroup = scenario.two_worlds = false;
  scenario.sparse = false;  // shares no memory
  const auto rank = static_cast<int>(seed / 4 % static_cast<std::uint64_t>(scenario.ranks));
  Fault dies{FaultKind::kCrash, std::chrono::microseconds(seed * 379 % 200), rank, 0, 0, {}};
  dies.trigger = {When::kBegins, static_cast<int>(seed % 5) * 10, 1, kAnybody};
  Fault starts{FaultKind::kRestart, std::chrono::microseconds(seed * 211 % 300), rank, 0, 0, {}};
  starts.trigger = {When::kFault, 0, 1, kAnybody};
  scenario.faults = {dies, starts};
  return scenario;
}

TEST_CASE("a rank that comes back shares memory again, unless one of them cannot") {
  int admitted = 0;
  int sharing = 0;
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    CAPTURE(seed);
    const RunVerdict verdict = simulate(homecoming(seed));
    CHECK(verdict.violation == "");
    if (seed % kCrampedWorlds == 1) continue;
    admitted += verdict.admitted;
    sharing += verdict.sharing;
  }
  CHECK(admitted > 0);
  CHECK(sharing == admitted);
  MESSAGE(admitted, " newcomers");
}

// Every pair, one after the other, while ops are under way.
Scenario closings(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 2 + static_cast<int>(seed % 4);
  scenario.elastic = scenario.subgroup = scenario.two_worlds = false;
  scenario.faults.clear();
  for (int step = 0; step < 4; ++step) {
    const int a = static_cast<int>(seed / 4 + static_cast<std::uint64_t>(step)) % scenario.ranks;
    const int b = (a + 1 + step % (scenario.ranks - 1)) % scenario.ranks;
    const std::uint64_t data = (seed + static_cast<std::uint64_t>(step)) % 2;
    Fault close{FaultKind::kClose, std::chrono::microseconds(seed * 379 % 200), a, b, data, {}};
    close.trigger = {When::kBegins, step * 10, 1, kAnybody};
    scenario.faults.push_back(close);
  }
  return scenario;
}

TEST_CASE("connections that a runtime closes by itself lose nobody") {
  for (std::uint64_t seed = 1; seed <= kWorlds; ++seed) {
    const Scenario scenario = closings(seed);
    const RunVerdict verdict = simulate(scenario);
    INFO(to_text(scenario));
    CHECK(verdict.violation == "");
    CHECK(verdict.stopped == 0);
    CHECK(verdict.took < std::chrono::seconds(1));
    CHECK(std::count(verdict.fired.begin(), verdict.fired.end(), true) > 0);
  }
}

// Of ranks that share memory, one stands still between seeing that the others' data is there and
// reading it, while they go on without it or, for a shorter time, wait for it.
Scenario suspension(std::uint64_t seed) {
  Scenario scenario = make_scenario(seed);
  scenario.ranks = 3 + static_cast<int>(seed % 4);
  scenario.hosts = 1;
  scenario.flat = true;
  scenario.elastic = scenario.subgroup = scenario.two_worlds = false;
  if (seed % 3 == 0) scenario.elements = 6'000;
  const int rank = static_cast<int>(seed / 4) % scenario.ranks;
  const auto lasts = std::chrono::milliseconds(seed % 2 == 0 ? 90 : 9);
  Fault suspended{FaultKind::kSuspend, {}, rank, 0, seed * 379 % 23, lasts};
  suspended.trigger = {When::kBegins, static_cast<int>(seed % 5) * 10, 1, kAnybody};
  Fault dies{FaultKind::kCrash, {}, (rank + 1) % scenario.ranks, 0, 0, {}};
  dies.trigger = {When::kAdopts, 2, 1, kAnybody};
  scenario.faults = {suspended, dies};
  return scenario;
}

TEST_CASE("who stands still while it reads others' memory has nothing that they wrote later") {
  run_worlds("suspension", suspension);
}

TEST_CASE("an elastic world grows, and goes on") {
  int admitted = 0;
  for (std::uint64_t seed = 1; seed <= kWorlds / 4; ++seed) {
    Scenario scenario = make_scenario(seed);
    scenario.ranks = 2 + static_cast<int>(seed % 3);
    scenario.steps = 8;
    scenario.outside = seed % 2 == 0;
    scenario.advances = scenario.elastic = true;
    scenario.subgroup = scenario.two_worlds = false;
    Fault grow{FaultKind::kGrow, {}, 0, 0, 0, {}};
    grow.trigger = {When::kBegins, 10, 1, kAnybody};
    scenario.faults = {grow, grow};
    const RunVerdict verdict = simulate(scenario);
    INFO(to_text(scenario));
    CHECK(verdict.violation == "");
    admitted += verdict.admitted;
  }
  CHECK(admitted > 0);
  MESSAGE(admitted, " newcomers");
}

TEST_CASE("stories end as they should") {
  const auto paths = files_in(SIM_SCENARIOS "/stories");
  CHECK(paths.size() > 0);
  for (const fs::path& path : paths) {
    INFO(path.string());
    const Scenario scenario = read_scenario(path);
    const RunVerdict verdict = simulate(scenario);
    CHECK(verdict.violation == "");
    // What it tells of has happened.
    CHECK(std::count(verdict.fired.begin(), verdict.fired.end(), false) == 0);
  }
}

TEST_CASE("worlds that once found a bug find none") {
  const auto paths = files_in(SIM_SCENARIOS "/found");
  CHECK(paths.size() > 0);
  for (const fs::path& path : paths) expect_ok(read_scenario(path));
}

TEST_CASE("a scenario survives being written down") {
  for (std::uint64_t seed = 1; seed < 200; ++seed) {
    const Scenario scenario = with_coordinator(seed);
    const auto read = parse_scenario(to_text(scenario));
    REQUIRE(read.is_ok());
    CHECK(read.value() == scenario);
  }
}

// A scenario whose faults wait for these ones, by number; -1: for none. They are told apart by
// rank.
Scenario waiting_for(const std::vector<int>& others) {
  Scenario scenario;
  for (std::size_t i = 0; i < others.size(); ++i) {
    Fault fault{FaultKind::kCrash, {}, static_cast<int>(i), 0, 0, {}};
    if (others[i] >= 0) fault.trigger = {When::kFault, others[i], 1, kAnybody};
    scenario.faults.push_back(fault);
  }
  return scenario;
}

// The faults that are left, and those that they wait for, as in the whole scenario.
std::vector<std::pair<int, int>> left_without(const std::vector<int>& others, std::size_t index) {
  const Scenario rest = without_fault(waiting_for(others), index);
  std::vector<std::pair<int, int>> left;
  for (const Fault& fault : rest.faults) {
    const bool waits = fault.trigger.when == When::kFault;
    const auto other = static_cast<std::size_t>(waits ? fault.trigger.what : 0);
    left.emplace_back(fault.a, waits ? rest.faults.at(other).a : -1);
  }
  return left;
}

TEST_CASE("a fault goes with those that wait for it, and the others wait for the same ones") {
  using Left = std::vector<std::pair<int, int>>;
  CHECK(left_without({-1, -1, 1}, 0) == Left{{1, -1}, {2, 1}});
  CHECK(left_without({-1, 0, 1, -1, 3}, 0) == Left{{3, -1}, {4, 3}});
  CHECK(left_without({-1, 0, -1, 2, 0, 3}, 0) == Left{{2, -1}, {3, 2}, {5, 3}});
  CHECK(left_without({-1, -1, 0, 1, 1, 3, 4}, 0) == Left{{1, -1}, {3, 1}, {4, 1}, {5, 3}, {6, 4}});
  CHECK(left_without({1, -1, 0}, 1).empty());
}

TEST_CASE("a line of a scenario that says nothing known is refused") {
  for (const std::string line :
       {"rank 3", "crash at 0 a 9 b 0 mask 0 lasts 0", "crash at 0 a 0 b 0 mask 0 lasts -1",
        "crash at 0 a 0 b 0 mask 0 lasts 0 when sends nothing count 1 by 0",
        "crash at 0 a 0 b 0 mask 0 lasts 0 when fault 0 count 1 by anybody"}) {
    CAPTURE(line);
    CHECK(parse_scenario("ranks 4\n" + line + "\n").status().code() == Code::kConfigError);
  }
}

}  // namespace
}  // namespace holdfast::sim
