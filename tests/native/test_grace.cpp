// The table of docs/guide/fault-tolerance.md, row by row, in the simulator: who is lost, and when,
// with a secret and without one.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "sim/process.h"
#include "sim/simulation.h"

namespace holdfast::sim {
namespace {

using std::chrono::milliseconds;

enum class Lost { kNobody, kAtOnce, kLate };

// Four ranks; rank 3 is what it happens to.
Scenario world(FaultKind kind, Duration lasts = {}) {
  Scenario s;
  s.seed = 1;  // without a record, where a coordinator is outside
  s.ranks = 4;
  s.steps = 40;
  s.elements = 4;
  s.zero_holes = true;
  Fault fault{kind, {}, 3, 0, 0, lasts};
  fault.trigger = {When::kBegins, 10, 1, kAnybody};
  s.faults = {fault};
  return s;
}

Scenario on_hosts(Scenario s, int hosts) {
  s.hosts = hosts;
  return s;
}

Scenario launched(Scenario s) {
  s.launched = true;
  return s;
}

// The rank is on a side of its own.
Scenario parted(Scenario s) {
  s.faults[0].mask = 8;
  return s;
}

struct Row {
  const char* name;
  Scenario world;
  Lost open;    // without a secret
  Lost sealed;  // with one
};

const std::vector<Row> kRows = {
    {"ends, and a rank of its host lives", on_hosts(world(FaultKind::kCrash), 2), Lost::kAtOnce,
     Lost::kAtOnce},
    {"ends alone, as whoever started it sees", launched(on_hosts(world(FaultKind::kCrash), 4)),
     Lost::kAtOnce, Lost::kAtOnce},
    {"ends, and nobody saw that", on_hosts(world(FaultKind::kCrash), 4), Lost::kAtOnce,
     Lost::kLate},
    {"says goodbye", on_hosts(world(FaultKind::kLeave), 4), Lost::kAtOnce, Lost::kAtOnce},
    {"its host goes without a word", world(FaultKind::kVanish), Lost::kLate, Lost::kLate},
    {"stands still for a while", world(FaultKind::kPause, milliseconds(15)), Lost::kNobody,
     Lost::kNobody},
    {"stands still for long", world(FaultKind::kPause, milliseconds(300)), Lost::kLate,
     Lost::kLate},
    {"is parted for a while", parted(world(FaultKind::kPartition, milliseconds(15))), Lost::kNobody,
     Lost::kNobody},
    {"is parted for long", parted(world(FaultKind::kPartition, milliseconds(300))), Lost::kLate,
     Lost::kLate},
    {"two do not hear each other", world(FaultKind::kCut), Lost::kLate, Lost::kLate},
    {"its connection breaks", on_hosts(world(FaultKind::kCut, milliseconds(1)), 4), Lost::kNobody,
     Lost::kNobody},
    {"its connection is reset", on_hosts(world(FaultKind::kReset, milliseconds(1)), 4),
     Lost::kNobody, Lost::kNobody},
    // Without a secret these are believed, and the simulator leaves them out.
    {"calls are refused in its name", on_hosts(world(FaultKind::kRefuse, milliseconds(2)), 4),
     Lost::kNobody, Lost::kNobody},
    {"is taken for dead by one elsewhere", on_hosts(world(FaultKind::kWitness), 4), Lost::kNobody,
     Lost::kNobody},
    {"a stranger lies", world(FaultKind::kStranger), Lost::kNobody, Lost::kNobody},
};

double ms_of(const std::string& line) { return std::strtod(line.c_str(), nullptr); }

// From the fault to the first decision after the members have stopped for a lost rank; nullopt:
// they never have.
std::optional<double> time_to_loss(const RunVerdict& run) {
  std::optional<double> begun;
  bool lost = false;
  for (const std::string& line : run.log) {
    const auto says = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (!begun && says("fault: ")) begun = ms_of(line);
    lost = lost || (says("sends prepare") && says("lost 1"));
    if (lost && says("sends decide")) return ms_of(line) - begun.value();
  }
  return std::nullopt;
}

TEST_CASE("each case of a loss takes as long as the table says") {
  for (const Row& row : kRows) {
    for (const bool outside : {false, true}) {
      for (const bool secret : {false, true}) {
        Scenario s = row.world;
        s.outside = outside;
        s.signs = secret;
        const RunVerdict run = simulate(s, true);
        const std::string name = row.name;
        CAPTURE(name);
        CAPTURE(outside);
        CAPTURE(secret);
        CHECK(run.violation == "");
        const auto took = time_to_loss(run);
        const Lost expected = secret ? row.sealed : row.open;
        CHECK(took.has_value() == (expected != Lost::kNobody));
        if (!took) continue;
        // A heartbeat may have come just before; a coordinator outside asks the others.
        const double grace = std::chrono::duration<double, std::milli>(silence(s)).count();
        const double beat = std::chrono::duration<double, std::milli>(heartbeat(s)).count();
        if (expected == Lost::kAtOnce) CHECK(*took < 2 * beat);
        if (expected == Lost::kLate) CHECK(*took > grace - 2 * beat);
        if (expected == Lost::kLate) CHECK(*took < grace + 6 * beat);
      }
    }
  }
}

// The other way is open, so one of the two has nothing to complain of. (TCP's acknowledgements
// would be stopped as well, and then both complain.)
TEST_CASE(
    "whoever the coordinator does not hear is lost, and ops wait for whom one member does not") {
  for (const bool outside : {false, true}) {
    for (const bool secret : {false, true}) {
      Scenario s = world(FaultKind::kClog, milliseconds(300));
      s.outside = outside;
      s.signs = secret;
      const RunVerdict run = simulate(s, true);
      CHECK(run.violation == "");
      CHECK(time_to_loss(run).has_value() == !outside);
      if (outside) CHECK(run.took > milliseconds(300));
    }
  }
}

// Nobody waits longer than for `grace`, and for what a decision takes.
TEST_CASE("with a secret a coordinator outside decides as soon as grace is over") {
  Scenario s = on_hosts(world(FaultKind::kCrash), 4);
  s.outside = s.signs = true;
  const auto took = time_to_loss(simulate(s, true));
  REQUIRE(took.has_value());
  const double grace = std::chrono::duration<double, std::milli>(silence(s)).count();
  CHECK(*took < grace + 3);
}

}  // namespace
}  // namespace holdfast::sim
