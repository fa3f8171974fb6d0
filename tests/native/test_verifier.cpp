// The verifier proves every algorithm of the catalogue, and refuses schedules that are broken in
// each way it knows.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "comm/algorithms/catalogue.h"
#include "comm/schedule/fusion.h"
#include "comm/schedule/verifier.h"
#include "fabrics.h"
#include "sanitized.h"

namespace holdfast::comm {
namespace {

std::vector<Schedule> build_all(const AlgorithmRow& row, int size, int root) {
  std::vector<Schedule> schedules;
  for (int r = 0; r < size; ++r) {
    schedules.push_back(row.build({row.collective, {r}, size, {root}}));
  }
  return schedules;
}

TEST_CASE("every algorithm is proven for 1 to 33 and 64 ranks") {
  for (const AlgorithmRow& row : catalogue()) {
    CAPTURE(row.algorithm);
    CAPTURE(collective_name(row.collective));
    for (int n = 1; n <= (testing::kSanitized ? 17 : 64); n = n == 33 ? 64 : n + 1) {
      CAPTURE(n);
      std::set<int> roots{0};
      if (is_rooted(row.collective)) {
        for (int root = 0; root < n; ++root) {
          if (n <= 9 || root % 7 == 3 || root == n - 1) roots.insert(root);
        }
      }
      for (const int root : roots) {
        CAPTURE(root);
        const Status status = verify(build_all(row, n, root));
        REQUIRE_MESSAGE(status.is_ok(), status.message());
      }
    }
  }
}

TEST_CASE("two levels are proven for fabrics of all shapes") {
  int rows = 0;
  for (const AlgorithmRow& row : catalogue()) {
    if (row.level_cost == nullptr) continue;
    ++rows;
    CAPTURE(collective_name(row.collective));
    for (const topology::Fabric& fabric : testing::fabrics()) {
      CAPTURE(fabric.text());
      const int n = fabric.size();
      for (int root = 0; root < (is_rooted(row.collective) ? n : 1); ++root) {
        CAPTURE(root);
        std::vector<Schedule> schedules;
        for (int r = 0; r < n; ++r) {
          schedules.push_back(row.build({row.collective, {r}, n, {root}, &fabric}));
        }
        const Status status = verify(schedules);
        REQUIRE_MESSAGE(status.is_ok(), status.message());
      }
    }
  }
  CHECK(rows == 6);
}

std::vector<int> peers_of(const topology::Fabric& fabric, const AlgorithmRow& row, int rank) {
  std::vector<int> peers;
  for (const Step& step : row.build({row.collective, {rank}, fabric.size(), {0}, &fabric}).steps) {
    if (step.kind == StepKind::kSend) peers.push_back(step.peer.value);
  }
  return peers;
}

TEST_CASE("two levels go by the innermost wide level, whatever is further in or out") {
  const topology::Fabric hosts = testing::on_hosts({0, 1, 0, 1, 2, 2});
  const topology::Fabric deeper =
      testing::on_devices({{0, 0}, {1, 0}, {0, 0}, {1, 0}, {1, 1}, {1, 1}});
  for (const AlgorithmRow& row : catalogue()) {
    if (row.level_cost == nullptr) continue;
    for (int r = 0; r < 6; ++r) CHECK(peers_of(hosts, row, r) == peers_of(deeper, row, r));
  }
}

topology::Fabric evenly(int size, int hosts) {
  return topology::Fabric::evenly(size, hosts, topology::kTcpLink).value();
}

TEST_CASE("two levels are chosen for several hosts with several ranks only") {
  const auto chosen = [](const topology::Fabric& fabric, std::uint64_t bytes) {
    return choose_algorithm({Collective::kAllReduce, bytes, fabric}).algorithm;
  };
  CHECK(chosen(evenly(8, 2), 64U << 20) == "two_level");
  CHECK(chosen(evenly(64, 8), 1U << 20) == "two_level");
  CHECK(chosen(evenly(8, 1), 64U << 20) != "two_level");
  CHECK(chosen(evenly(8, 8), 64U << 20) != "two_level");
}

TEST_CASE("every collective finds a row, whatever the fabric") {
  for (int c = 0; c < static_cast<int>(Collective::kSend); ++c) {
    for (const topology::Fabric& fabric : testing::fabrics()) {
      for (const std::uint64_t bytes : {0ULL, 4096ULL, 1ULL << 30}) {
        const auto collective = static_cast<Collective>(c);
        const AlgorithmRow& row = choose_algorithm({collective, bytes, fabric});
        CHECK(row.collective == collective);
        CHECK(row.blocks == Blocks::kAny);
      }
    }
  }
}

TEST_CASE("ring partial sums have one reader, so that they can stream") {
  for (const Schedule& s : build_all(*find_algorithm(Collective::kAllReduce, "ring"), 5, 0)) {
    for (const ScratchUse& use : scratch_uses(s)) CHECK(use.passes_once());
    int fused = 0;
    for (const int into : find_fusions(s)) fused += into >= 0 ? 1 : 0;
    CHECK(fused == 4);
  }
}

TEST_CASE("a ring's gather follows behind the steps that read what it overwrites") {
  for (const Schedule& s : build_all(*find_algorithm(Collective::kAllReduce, "ring"), 5, 0)) {
    int follows = 0;
    for (const Step& step : s.steps) {
      if (step.kind != StepKind::kRecv || step.dst.space != Space::kOutput) continue;
      for (const Dependency& d : step.deps) {
        CHECK(s.steps[d.step].kind != StepKind::kRecv);
        CHECK(d.streamed);
        ++follows;
      }
    }
    CHECK(follows == 4);  // one for each chunk of another rank
  }
}

std::vector<Schedule> ring3() {
  return build_all(*find_algorithm(Collective::kAllReduce, "ring"), 3, 0);
}

void expect_refused(const std::vector<Schedule>& schedules, const std::string& reason) {
  const Status status = verify(schedules);
  CHECK(status.code() == Code::kProtocolError);
  CHECK_MESSAGE(status.message().find(reason) != std::string::npos, status.message());
}

Step& first(Schedule& s, StepKind kind) {
  for (Step& step : s.steps) {
    if (step.kind == kind) return step;
  }
  FAIL("no such step");
  return s.steps[0];
}

TEST_CASE("a missing message is refused") {
  auto s = ring3();
  s[1].steps.pop_back();
  expect_refused(s, "nobody receives");
  s = ring3();
  first(s[1], StepKind::kSend).ordinal = 9;
  expect_refused(s, "nobody");
}

TEST_CASE("a message numbered twice is refused") {
  auto s = ring3();
  int seen = 0;
  for (Step& step : s[0].steps) {
    if (step.kind == StepKind::kSend && ++seen == 2) step.ordinal = 0;
  }
  expect_refused(s, "sent twice");
}

TEST_CASE("counting a contribution twice is refused") {
  auto s = ring3();
  for (Step& step : s[0].steps) {
    if (step.kind == StepKind::kReduce) step.rhs = step.lhs;
  }
  expect_refused(s, "twice");
}

TEST_CASE("leaving a contribution out is refused") {
  auto s = ring3();
  for (Step& step : s[2].steps) {
    if (step.kind != StepKind::kReduce || !step.final) continue;
    step.kind = StepKind::kCopy;
    step.final = false;
  }
  expect_refused(s, "not final");
}

TEST_CASE("writing the input is refused") {
  auto s = ring3();
  first(s[0], StepKind::kRecv).dst = Builder::input(1);
  expect_refused(s, "input is written");
}

TEST_CASE("a partial sum in the output is refused") {
  auto s = ring3();
  for (Step& step : s[0].steps) {
    if (step.kind == StepKind::kReduce && !step.final) step.dst = Builder::output(0);
  }
  CHECK_FALSE(verify(s).is_ok());
}

TEST_CASE("unordered steps on one chunk are refused") {
  auto s = ring3();
  for (Step& step : s[1].steps) step.deps.clear();
  expect_refused(s, "race");
}

TEST_CASE("a circle of sends that wait for each other is refused") {
  // Each rank receives only after its own send is over: fine with buffers, deadlock without.
  std::vector<Schedule> s;
  for (int r = 0; r < 2; ++r) {
    Builder b({Collective::kAllToAll, {r}, 2, {}}, 2);
    b.send(1 - r, Builder::input(1 - r));
    b.recv(1 - r, Builder::output(1 - r));
    b.copy(Builder::output(r), Builder::input(r));
    s.push_back(std::move(b).finish());
    s.back().steps[1].deps.push_back({0, false});
  }
  expect_refused(s, "deadlock");
}

TEST_CASE("a wrong result is refused") {
  auto s = build_all(*find_algorithm(Collective::kAllGather, "ring"), 3, 0);
  first(s[0], StepKind::kCopy).dst = Builder::output(1);
  CHECK_FALSE(verify(s).is_ok());
}

TEST_CASE("a step that names no peer or chunk is refused") {
  auto s = ring3();
  first(s[0], StepKind::kSend).peer = {7};
  expect_refused(s, "no such peer");
  s = ring3();
  first(s[0], StepKind::kRecv).dst = {Space::kScratch, 99};
  expect_refused(s, "no such chunk");
}

}  // namespace
}  // namespace holdfast::comm
