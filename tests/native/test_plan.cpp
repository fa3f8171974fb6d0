// The table of plans: what a look-up answers, and what its text may be. The planner that measures
// runs in real ranks (tests/python/cli/test_plan.py).
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "comm/algorithms/catalogue.h"
#include "comm/plan/plan_table.h"
#include "fabrics.h"

namespace holdfast::comm {
namespace {

constexpr PlanKey kFour{Collective::kAllReduce, {4, 1, false}};

PlanTable table_of(const std::vector<PlanRow>& rows) {
  PlanTable table;
  for (const PlanRow& row : rows) table.add(row);
  return table;
}

std::string refused(const std::string& text) {
  const auto parsed = PlanTable::parse(text);
  REQUIRE(!parsed.is_ok());
  CHECK(parsed.status().code() == Code::kConfigError);
  return parsed.status().message();
}

TEST_CASE("the fastest is found where it was measured, and near that only if near will do") {
  const PlanTable table = table_of(
      {{kFour, 4096, "ring", 3e-6}, {kFour, 4096, "flat", 2e-6}, {kFour, 1 << 20, "ring", 1e-3}});
  CHECK(table.find(kFour, 4096, false) == "flat");
  CHECK(table.find(kFour, 8191, false) == "flat");
  CHECK(!table.find(kFour, 8192, false));
  CHECK(table.find(kFour, 8192, true) == "flat");
  CHECK(!table.find(kFour, 64 * 1024, true));
  CHECK(!table.find({Collective::kAllReduce, {4, 1, true}}, 4096, true));
  CHECK(!table.find({Collective::kBroadcast, {4, 1, false}}, 4096, true));
}

TEST_CASE("a later measurement replaces an earlier one of its algorithm and size") {
  PlanTable table = table_of({{kFour, 4096, "ring", 3e-6}, {kFour, 4096, "flat", 2e-6}});
  table.merge(table_of({{kFour, 5000, "ring", 1e-6}}));
  CHECK(table.find(kFour, 4096, false) == "ring");
  CHECK(table.rows().size() == 2);
}

TEST_CASE("a table comes back from its text as it was") {
  PlanTable table = table_of({{kFour, 4096, "ring", 3.25e-6},
                              {kFour, 1 << 20, "halving_doubling", 0.1},
                              {{Collective::kBroadcast, {64, 8, false}}, 1, "two_level", 1e-9},
                              {{Collective::kBroadcast, {2, 1, true}}, 1, "shared_memory", 0}});
  table.set_link(false, {1e-6, 2e-10, 0});
  const auto again = PlanTable::parse(table.text());
  REQUIRE(again.is_ok());
  CHECK(again.value().rows() == table.rows());
  CHECK(again.value().text() == table.text());
  CHECK(again.value().link(false).beta_s_per_byte == 2e-10);
  CHECK(again.value().link(true).alpha_s == topology::kShmLink.alpha_s);
}

TEST_CASE("a text that is no table is refused by line and value") {
  const std::string first = "holdfast-plan 1\n";
  CHECK(refused("").find("empty") != std::string::npos);
  CHECK(refused("holdfast-plan 2\n").find("line 1") != std::string::npos);
  CHECK(refused(first + "all_reduce 4 1 tcp 4096 ring\n").find("6 words") != std::string::npos);
  CHECK(refused(first + "sing 4 1 tcp 4096 ring 1\n").find("collective sing") != std::string::npos);
  CHECK(refused(first + "\nall_reduce 4 1 tcp 1 bruck 1\n").find("line 3") != std::string::npos);
  CHECK(refused(first + "all_reduce 4 5 tcp 1 ring 1\n").find("hosts 4 5") != std::string::npos);
  CHECK(refused(first + "all_reduce 4 1 udp 1 ring 1\n").find("udp") != std::string::npos);
  CHECK(refused(first + "all_reduce 4 1 tcp -1 ring 1\n").find("size -1") != std::string::npos);
  CHECK(refused(first + "all_reduce 4 1 tcp 1 ring nan\n").find("nan") != std::string::npos);
  CHECK(refused(first + "all_reduce 4 1 tcp 1 ring -1\n").find("time -1") != std::string::npos);
  CHECK(refused(first + "link tcp 1 2\n").find("three numbers") != std::string::npos);
  CHECK(refused(first + std::string(100, 'x')).size() < 200);
}

TEST_CASE("what keeps partial sums of half the payload is not chosen where that is much") {
  const topology::Fabric fabric = testing::on_hosts({0, 0, 0, 0});
  for (const Collective c : {Collective::kAllReduce, Collective::kReduceScatter}) {
    const Problem problem{c, 256ULL << 20, fabric};
    CHECK(choose_algorithm(problem).algorithm != "halving_doubling");
    CHECK(!predict_seconds(*find_algorithm(c, "halving_doubling"), problem));
  }
}

TEST_CASE("the prediction of the chosen row is the least of all rows that may be chosen") {
  for (const topology::Fabric& fabric : testing::fabrics()) {
    CAPTURE(fabric.text());
    for (const std::uint64_t bytes : {64ULL, 65536ULL, 16ULL << 20}) {
      const Problem problem{Collective::kAllReduce, bytes, fabric};
      const AlgorithmRow& chosen = choose_algorithm(problem);
      for (const AlgorithmRow& row : catalogue()) {
        const auto seconds = predict_seconds(row, problem);
        if (seconds) CHECK(*predict_seconds(chosen, problem) <= *seconds);
        CHECK((row.level_cost == nullptr || fabric.wide_level() || !seconds));
      }
    }
  }
}

TEST_CASE("the cost model chooses and predicts what is written down") {
  std::ifstream file(CHOICES);
  std::stringstream text;
  text << file.rdbuf();
  const auto choices = PlanTable::parse(text.str());
  REQUIRE_MESSAGE(choices.is_ok(), choices.status().message());
  CHECK(choices.value().rows().size() == 240);
  for (const PlanRow& row : choices.value().rows()) {
    const Placement& place = row.key.place;
    CAPTURE(collective_name(row.key.collective));
    CAPTURE(place.ranks);
    CAPTURE(place.hosts);
    CAPTURE(row.bytes);
    const auto fabric =
        topology::Fabric::evenly(place.ranks, place.hosts, PlanTable().link(place.shared)).value();
    const Problem problem{row.key.collective, row.bytes, fabric};
    const AlgorithmRow& chosen = choose_algorithm(problem);
    CHECK(chosen.algorithm == row.algorithm);
    CHECK(*predict_seconds(chosen, problem) == doctest::Approx(row.seconds).epsilon(1e-12));
  }
}

// Two sites of two hosts of two ranks; `out` is the way out of a site.
double seconds_on_sites(const char* algorithm, std::optional<double> out) {
  const topology::LinkModel free{};
  const std::vector<std::vector<int>> paths{{0, 0}, {0, 0}, {0, 1}, {0, 1},
                                            {1, 0}, {1, 0}, {1, 1}, {1, 1}};
  const std::vector<topology::FabricLevel> levels{
      {"all", {0, 1e-9, 0}}, {"site", free, out}, {"host", free}};
  const auto fabric = topology::Fabric::make(levels, paths).value();
  const Problem problem{Collective::kAllReduce, 8'000'000, fabric};
  return *predict_seconds(*find_algorithm(problem.collective, algorithm), problem);
}

TEST_CASE("who shares a way out waits for it, on the level that is the slowest") {
  // Of 14 MB by each rank, a ring takes one rank's out of a site, two levels those of two hosts
  // (12 MB each), a halving those of all four.
  CHECK(seconds_on_sites("ring", std::nullopt) == doctest::Approx(14e-3));
  CHECK(seconds_on_sites("ring", 1e-9) == doctest::Approx(14e-3));
  CHECK(seconds_on_sites("ring", 2e-9) == doctest::Approx(28e-3));
  CHECK(seconds_on_sites("halving_doubling", std::nullopt) == doctest::Approx(14e-3));
  CHECK(seconds_on_sites("halving_doubling", 1e-9) == doctest::Approx(56e-3));
  CHECK(seconds_on_sites("halving_doubling", 1e-10) == doctest::Approx(14e-3));
  CHECK(seconds_on_sites("two_level", std::nullopt) == doctest::Approx(12e-3));
  CHECK(seconds_on_sites("two_level", 1e-9) == doctest::Approx(24e-3));
}

// Seconds of 8 MB where a byte takes a nanosecond between hosts, and a tenth of it inside.
double seconds_on_hosts(Collective collective, const char* algorithm,
                        const std::vector<int>& host_of) {
  const topology::HostLinks links({0, 1e-9, 0}, {0, 1e-10, 0});
  const auto fabric = topology::Fabric::of_hosts(host_of, links).value();
  return *predict_seconds(*find_algorithm(collective, algorithm), {collective, 8'000'000, fabric});
}

TEST_CASE("a ring shares a host's way out among all of its hops that leave it") {
  CHECK(seconds_on_hosts(Collective::kAllReduce, "ring", {0, 0, 0, 0, 1, 1, 1, 1}) ==
        doctest::Approx(14e-3));
  CHECK(seconds_on_hosts(Collective::kAllReduce, "ring", {0, 1, 0, 1, 0, 1, 0, 1}) ==
        doctest::Approx(56e-3));
  CHECK(seconds_on_hosts(Collective::kAllReduce, "ring", {0, 1, 0, 0, 0, 0, 0, 1}) ==
        doctest::Approx(28e-3));
}

TEST_CASE("the fullest host decides what leaves it, if all of its ranks send") {
  // Of 14 MB by each rank.
  CHECK(seconds_on_hosts(Collective::kAllReduce, "halving_doubling", {0, 0, 0, 0, 0, 0, 0, 1}) ==
        doctest::Approx(98e-3));
}

TEST_CASE("in two levels the smallest host has the lanes, and the largest fills them") {
  const std::vector<int> even{0, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<int> uneven{0, 0, 0, 0, 0, 0, 0, 1};
  // Across 8 MB, inside 12 MB by each of four lanes, or 96 MB by one.
  CHECK(seconds_on_hosts(Collective::kAllReduce, "two_level", even) ==
        doctest::Approx(8e-3 + 1.2e-3));
  CHECK(seconds_on_hosts(Collective::kAllReduce, "two_level", uneven) ==
        doctest::Approx(8e-3 + 9.6e-3));
  // Blocks of 1 MB. Across 4, or the 7 of which the other host has none; inside each rank serves
  // two others for three peers, or one of its own host and at most one of the other for six.
  CHECK(seconds_on_hosts(Collective::kReduceScatter, "two_level", even) ==
        doctest::Approx(4e-3 + 0.6e-3));
  CHECK(seconds_on_hosts(Collective::kReduceScatter, "two_level", uneven) ==
        doctest::Approx(7e-3 + 1.2e-3));
  CHECK(seconds_on_hosts(Collective::kAllGather, "two_level", uneven) ==
        doctest::Approx(7e-3 + 1.2e-3));
  CHECK(seconds_on_hosts(Collective::kBroadcast, "two_level", uneven) ==
        doctest::Approx(8e-3 + 2.4e-3));
}

TEST_CASE("what was measured inside hosts counts where there are several") {
  const auto inside = [](double beta) {
    const topology::HostLinks links(topology::kTcpLink, {4e-6, beta, 0});
    return topology::Fabric::of_hosts(std::vector<int>{0, 0, 1, 1}, links).value();
  };
  const Problem fast{Collective::kAllReduce, 1 << 20, inside(1e-10)};
  const Problem slow{Collective::kAllReduce, 1 << 20, inside(1e-8)};
  CHECK(choose_algorithm(fast).algorithm == "two_level");
  CHECK(choose_algorithm(slow).algorithm != "two_level");
}

}  // namespace
}  // namespace holdfast::comm
