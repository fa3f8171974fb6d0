// Prices of schedules on maps, and what is chosen by them: by latency for what is small, by
// capacity for what is large, whatever the ranks are numbered like.
#include "comm/plan/map_price.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/plan/route.h"
#include "comm/schedule/verifier.h"
#include "site_maps.h"
#include "topology/forest/domains.h"

namespace holdfast::comm {
namespace {

using testing::on;
using testing::sites;
using topology::Fabric;
using topology::LinkMap;

double least_seconds(const Fabric& fabric, Collective collective, std::uint64_t bytes) {
  const auto candidates = candidates_on_map({collective, bytes, fabric});
  return cheapest(candidates, bytes).price.seconds(bytes);
}

std::string_view chosen(const Fabric& fabric, Collective collective, std::uint64_t bytes) {
  return choose_algorithm({collective, bytes, fabric}).algorithm;
}

constexpr Collective kByMap[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                 Collective::kAllGather, Collective::kBroadcast,
                                 Collective::kReduce};

TEST_CASE("a ring's price is what it sends over the line, and its chain of messages") {
  const auto map = sites({0, 0, 0, 0, 1, 1, 1, 1});
  const Fabric fabric = on(map);
  const auto* ring = find_algorithm(Collective::kAllReduce, "ring");
  const auto price = candidate_on_map(*ring, {Collective::kAllReduce, 0, fabric})->price;
  CHECK(price.s_per_byte == doctest::Approx(1.75 * 8 / 200e6));
  // Of 14 hops of a chunk that starts where the way is longest, four cross.
  CHECK(price.latency_s >= 4 * 20e-3);
  CHECK(price.latency_s < 4 * 20e-3 + 5e-3);
  const Fabric mixed = on(sites({0, 1, 0, 1, 0, 1, 0, 1}));
  const auto worse = candidate_on_map(*ring, {Collective::kAllReduce, 0, mixed})->price;
  CHECK(worse.s_per_byte == doctest::Approx(4 * 1.75 * 8 / 200e6));
}

TEST_CASE("a small sum over two sites takes their latency once, and little else") {
  for (const auto& site_of : {std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1},
                              {0, 1, 0, 1, 0, 1, 0, 1},
                              {0, 0, 0, 0, 0, 1, 1, 1}}) {
    const Fabric fabric = on(sites(site_of));
    CHECK(chosen(fabric, Collective::kAllReduce, 64 << 10) == "domain_lanes");
    CHECK(chosen(fabric, Collective::kAllReduce, 1024) == "domain_exchange");
    const double moving = (64 << 10) * 8 / 200e6;
    CHECK(least_seconds(fabric, Collective::kAllReduce, 64 << 10) - moving < 1.2 * 20e-3);
    for (const Collective collective : kByMap) {
      CAPTURE(collective_name(collective));
      CHECK(least_seconds(fabric, collective, 1024) < 1.2 * 20e-3);
    }
  }
}

TEST_CASE("large ops go by trees, near the line's rate, whatever the ranks are numbered like") {
  constexpr std::uint64_t kBytes = 32 << 20;
  const double least = kBytes * 8 / 200e6;
  for (const Collective collective : kByMap) {
    CAPTURE(collective_name(collective));
    const Fabric fabric = on(sites({0, 0, 0, 0, 1, 1, 1, 1}));
    const Fabric mixed = on(sites({0, 1, 0, 1, 0, 1, 0, 1}));
    const Fabric uneven = on(sites({0, 0, 0, 0, 0, 0, 0, 1}));
    const double seconds = least_seconds(fabric, collective, kBytes);
    CHECK(seconds < 1.15 * least);
    CHECK(least_seconds(mixed, collective, kBytes) == doctest::Approx(seconds).epsilon(0.05));
    CHECK(least_seconds(uneven, collective, kBytes) < 1.15 * least);
  }
  CHECK(chosen(on(sites({0, 0, 0, 0, 1, 1, 1, 1})), Collective::kAllReduce, kBytes) == "forest");
}

TEST_CASE("what is chosen is predicted to be the fastest, and keeps the order where it must") {
  const Fabric fabric = on(sites({0, 1, 2, 0, 1, 2}));
  for (const Collective collective : kByMap) {
    for (const std::uint64_t bytes : {1ULL << 10, 1ULL << 18, 1ULL << 26}) {
      for (const bool ordered : {false, true}) {
        const Problem problem{collective, bytes, fabric, ordered};
        const AlgorithmRow& row = choose_algorithm(problem);
        CHECK((row.keeps_order() || !ordered || !reduces(collective)));
        for (const AlgorithmRow& other : catalogue()) {
          if (other.blocks == Blocks::kEqual) continue;
          const auto seconds = predict_seconds(other, problem);
          if (seconds) CHECK(*predict_seconds(row, problem) <= *seconds * 1.000001);
        }
      }
    }
  }
}

TEST_CASE("a group remembers what it priced, and answers as one that asks anew") {
  const Fabric fabric = on(sites({0, 1, 2, 0, 1, 2}));
  const ViewFacts view{6, &fabric, false, SliceReach::kNothing, true};
  std::vector<std::byte> memory(64);
  MapPlans plans(nullptr);
  LastAnswer last{.on_map = &plans};
  for (const Collective collective : kByMap) {
    for (const int root : {0, 4}) {
      for (const std::uint64_t elements : {64ULL, 1ULL << 16, 1ULL << 24}) {
        OpRequest request;
        request.collective = collective;
        request.root = {root};
        const Block block{memory.data(), elements};
        request.input = std::vector<Block>(has_input_blocks(collective) ? 6 : 1, block);
        request.output = std::vector<Block>(has_output_blocks(collective) ? 6 : 1, block);
        const Plan plan = route_in_view(request, view, false, &last);
        CHECK(plan.algorithm == route_in_view(request, view).algorithm);
        CHECK(plan.reason == Reason::kPredicted);
        CHECK((plan.trees != nullptr) == (plan.algorithm->algorithm == "forest"));
      }
    }
  }
}

TEST_CASE("domains are found by latencies of distinct kinds, and not where there are none") {
  CHECK(topology::domains_of(*sites({0, 0, 0, 0})).depth() == 0);
  const Fabric two = topology::domains_of(*sites({0, 1, 0, 1, 1}));
  REQUIRE(two.depth() == 1);
  CHECK(two.domains(1) == 2);
  CHECK(two.domain_of({0}, 1) == two.domain_of({2}, 1));
  CHECK(two.domain_of({1}, 1) == two.domain_of({4}, 1));
  const auto deep = LinkMap::parse(
      R"({"format":1,"levels":[{"name":"site","count":2,"gbit_per_s":0.2,"alpha_us":10000},
          {"name":"rack","count":3,"gbit_per_s":1,"alpha_us":500},
          {"name":"rank","count":2,"gbit_per_s":1,"alpha_us":50}]})");
  REQUIRE(deep.is_ok());
  const Fabric three = topology::domains_of(deep.value());
  REQUIRE(three.depth() == 2);
  CHECK(three.domains(1) == 2);
  CHECK(three.domains(2) == 6);
}

TEST_CASE("rows that go by the map are proven on maps of several levels") {
  const auto deep = LinkMap::parse(
      R"({"format":1,"levels":[{"name":"site","count":2,"gbit_per_s":0.2,"alpha_us":10000},
          {"name":"rack","count":3,"gbit_per_s":1,"alpha_us":500},
          {"name":"rank","count":2,"gbit_per_s":1,"alpha_us":50}]})");
  std::vector<std::shared_ptr<const LinkMap>> maps{sites({0, 1, 0, 1, 1}), sites({0, 0, 0}),
                                                   sites({0, 1}), sites({0, 1, 2, 2, 1, 0, 0}),
                                                   std::make_shared<const LinkMap>(deep.value())};
  int rows = 0;
  for (const AlgorithmRow& row : catalogue()) {
    if (!row.goes_by_map) continue;
    ++rows;
    for (const auto& map : maps) {
      const Fabric fabric = on(map);
      const int n = map->size();
      for (int root = 0; root < (is_rooted(row.collective) ? n : 1); ++root) {
        CAPTURE(row.algorithm);
        CAPTURE(collective_name(row.collective));
        CAPTURE(root);
        std::vector<Schedule> schedules;
        for (int r = 0; r < n; ++r) {
          schedules.push_back(row.build({row.collective, {r}, n, {root}, &fabric}));
        }
        const Status status = verify(schedules);
        CHECK_MESSAGE(status.is_ok(), status.message());
      }
    }
  }
  CHECK(rows == 13);
}

}  // namespace
}  // namespace holdfast::comm
