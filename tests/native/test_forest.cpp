// Forests: least trees against all trees, what a plan promises on random maps, and that its
// schedules are proven.
#include "topology/forest/forest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/verifier.h"
#include "random_maps.h"
#include "topology/forest/arborescence.h"
#include "topology/forest/plan.h"

namespace holdfast::topology {
namespace {

using testing::add_cards;
using testing::number;
using testing::Random;
using testing::random_map;

// ---- least trees ----

bool reaches_all(const std::vector<int>& parents, int root) {
  const auto n = static_cast<int>(parents.size());
  for (int v = 0; v < n; ++v) {
    int at = v;
    for (int hops = 0; at != root && hops < n; ++hops) at = parents[as_index(at)];
    if (at != root) return false;
  }
  return true;
}

// The least length of all trees with this root, by trying every choice of edges.
double least_of_all(const LengthMatrix& lengths, int root) {
  const int n = lengths.size();
  std::vector<int> parents(as_index(n), 0);
  double least = LengthMatrix::kNoWay;
  int choices = 1;
  for (int i = 0; i < n; ++i) choices *= n;
  for (int code = 0; code < choices; ++code) {
    double sum = 0;
    int rest = code;
    for (int v = 0; v < n; ++v, rest /= n) {
      parents[as_index(v)] = rest % n;
      if (v != root) sum += lengths.at(v, rest % n);
    }
    if (sum < least && reaches_all(parents, root)) least = sum;
  }
  return least;
}

LengthMatrix random_lengths(Random& random, int n) {
  LengthMatrix lengths(n);
  for (int v = 0; v < n; ++v) {
    for (int u = 0; u < n; ++u) {
      const bool has_way = u == (v + 1) % n || number(random, 0, 4) > 0;
      if (u != v && has_way) lengths.at(v, u) = number(random, 0, 9);
    }
  }
  return lengths;
}

TEST_CASE("the tree of each root is as short as the shortest of all trees") {
  Random random(3);
  for (int round = 0; round < 60; ++round) {
    const int n = number(random, 2, 5);
    const LengthMatrix lengths = random_lengths(random, n);
    LengthMatrix turned(n);
    for (int v = 0; v < n; ++v) {
      for (int u = 0; u < n; ++u) turned.at(u, v) = lengths.at(v, u);
    }
    Arborescences least(n);
    for (const bool reversed : {false, true}) {
      REQUIRE(least.contract(reversed ? turned : lengths, reversed));
      for (int root = 0; root < n; ++root) {
        const double expected = least_of_all(lengths, root);
        std::vector<int> parents;
        least.expand(root, parents);
        double sum = 0;
        for (int v = 0; v < n; ++v) sum += v == root ? 0 : lengths.at(v, parents[as_index(v)]);
        CHECK(parents[as_index(root)] == -1);
        CHECK(reaches_all(parents, root));
        CHECK(sum == doctest::Approx(expected));
        CHECK(least.lengths_by_root()[as_index(root)] == doctest::Approx(expected));
      }
    }
  }
}

TEST_CASE("a vertex that nothing enters has no tree") {
  LengthMatrix lengths(3);
  lengths.at(0, 1) = lengths.at(1, 0) = lengths.at(0, 2) = 1;  // nothing enters 2
  Arborescences least(3);
  CHECK_FALSE(least.contract(lengths));
}

// ---- forests ----

void check_tree(const Capacities& map, const ForestTask& task, const PlannedTree& tree) {
  CHECK(tree.share > 0);
  CHECK(tree.up.empty() == !task.up);
  CHECK(tree.down.empty() == !task.down);
  if (task.root) CHECK(tree.root == *task.root);
  for (const auto* way : {&tree.up, &tree.down}) {
    if (!way->empty()) CHECK(reaches_all(*way, tree.root));
  }
  for (int r = 0; r < map.ranks; ++r) {
    if (r == tree.root) continue;
    if (task.up) CHECK(map.kbit_per_s[map.pair(r, tree.up[as_index(r)])] > 0);
    if (task.down) CHECK(map.kbit_per_s[map.pair(tree.down[as_index(r)], r)] > 0);
  }
}

void check_forest(const Capacities& map, const ForestTask& task, const Forest& forest) {
  REQUIRE(!forest.trees.empty());
  CHECK(forest.trees.size() <= most_trees(task));
  std::int64_t shares = 0;
  for (const PlannedTree& tree : forest.trees) {
    check_tree(map, task, tree);
    shares += tree.share;
  }
  CHECK(shares == kWholeShare);
  for (std::size_t r = 0; r < task.parts_of_roots.size(); ++r) {
    std::int64_t own = 0;
    for (const PlannedTree& tree : forest.trees) {
      if (as_index(tree.root) == r) own += tree.share;
    }
    // Parts are whole numbers, one of each tree.
    const auto whole =
        std::accumulate(task.parts_of_roots.begin(), task.parts_of_roots.end(), std::int64_t{0});
    const double part = static_cast<double>(kWholeShare) *
                        static_cast<double>(task.parts_of_roots[r]) / static_cast<double>(whole);
    CHECK(std::abs(static_cast<double>(own) - part) <= static_cast<double>(kMostTrees));
  }
  // What was promised holds for every capacity, and is reached at the one that decides.
  const std::vector<double> used = usage(map, forest.trees);
  for (std::size_t c = 0; c < used.size(); ++c) {
    if (used[c] == 0) continue;
    CHECK(used[c] * forest.kbit_per_s <= static_cast<double>(map.rate(c)) * 1.000001);
  }
  CHECK(used[forest.decides] * forest.kbit_per_s ==
        doctest::Approx(static_cast<double>(map.rate(forest.decides))));
  CHECK(forest.bound_kbit_per_s >= forest.kbit_per_s * 0.999999);
  CHECK(forest.bound_kbit_per_s <= forest.kbit_per_s * 1.05);
}

TEST_CASE("a forest on a random map is near its bound, and the same each time") {
  Random random(11);
  for (int round = 0; round < 24; ++round) {
    const int n = number(random, 2, 20);
    const Capacities map = random_map(random, n);
    const ForestTask tasks[] = {{},
                                {.up = false, .down = true, .root = number(random, 0, n - 1)},
                                {.up = true, .down = false, .root = number(random, 0, n - 1)}};
    for (const ForestTask& task : tasks) {
      CAPTURE(round);
      CAPTURE(n);
      const auto forest = make_forest(map, task);
      REQUIRE(forest);
      check_forest(map, task, *forest);
      CHECK(make_forest(map, task)->trees == forest->trees);
    }
  }
}

TEST_CASE("where every rank is the root of a part, each has trees, and all together are near") {
  Random random(29);
  for (int round = 0; round < 24; ++round) {
    const int n = number(random, 2, 20);
    const Capacities map = random_map(random, n);
    std::vector<std::int64_t> parts(as_index(n), 1);
    if (round % 3 == 2) {
      for (std::int64_t& part : parts) part = number(random, round % 2, 5);
      parts[0] = 1;
    }
    for (const bool up : {false, true}) {
      CAPTURE(round);
      CAPTURE(n);
      const ForestTask task{.up = up, .down = !up, .root = {}, .parts_of_roots = parts};
      const auto forest = make_forest(map, task);
      REQUIRE(forest);
      check_forest(map, task, *forest);
      CHECK(make_forest(map, task)->trees == forest->trees);
    }
  }
}

TEST_CASE("a plan whose ranks have parts says what would be without the rank that decides") {
  // The last of three ranks has a card of a tenth of the others'.
  const auto map = LinkMap::parse(
      R"({"format":1,"ranks":3,"gbit_per_s":10,"alpha_us":1,"shared":[
          {"name":"out 2","gbit_per_s":0.1,"from":[2],"to":[0,1]},
          {"name":"into 2","gbit_per_s":0.1,"from":[0,1],"to":[2]},
          {"name":"out 1","gbit_per_s":1,"from":[1],"to":[0,2]},
          {"name":"out 0","gbit_per_s":1,"from":[0],"to":[1,2]}]})");
  REQUIRE(map.is_ok());
  const ForestTask task{.up = true, .down = false, .root = {}, .parts_of_roots = {1, 1, 1}};
  const auto plan = plan_forest(map.value(), task, 1 << 20);
  REQUIRE(plan.is_ok());
  CHECK(plan.value().why.find("without rank 2") != std::string::npos);
}

TEST_CASE("what is known of simple maps") {
  // Equal cards: 2 (n - 1) / n of the payload goes through each.
  Random random(5);
  Capacities map;
  map.ranks = 8;
  map.kbit_per_s.assign(64, 10'000'000);
  add_cards(map, random, 100, 100);
  CHECK(make_forest(map, {})->kbit_per_s == doctest::Approx(100'000 * 8 / 14.0).epsilon(0.005));
  // One rank is slower than that: once out and once in is all that it needs.
  map.shared[6].kbit_per_s = map.shared[7].kbit_per_s = 25'000;
  CHECK(make_forest(map, {})->kbit_per_s == doctest::Approx(25'000).epsilon(0.005));
}

ForestTask parts_for(int n, bool up) {
  return {.up = up,
          .down = !up,
          .root = {},
          .parts_of_roots = std::vector<std::int64_t>(as_index(n), 1)};
}

TEST_CASE("schedules of forests are proven") {
  Random random(17);
  for (int round = 0; round < 8; ++round) {
    const int n = number(random, 2, 7);
    const int root = number(random, 0, n - 1);
    const Capacities map = random_map(random, n);
    const std::pair<comm::Collective, ForestTask> asked[] = {
        {comm::Collective::kAllReduce, {}},
        {comm::Collective::kBroadcast, {.up = false, .down = true, .root = root}},
        {comm::Collective::kReduce, {.up = true, .down = false, .root = root}},
        {comm::Collective::kReduceScatter, parts_for(n, true)},
        {comm::Collective::kAllGather, parts_for(n, false)}};
    for (const auto& [collective, task] : asked) {
      const auto forest = make_forest(map, task);
      REQUIRE(forest);
      std::vector<comm::Schedule> schedules;
      for (int r = 0; r < n; ++r) {
        comm::BuildSpec spec;
        spec.collective = collective;
        spec.rank = Rank{r};
        spec.size = n;
        spec.root = Rank{root};
        schedules.push_back(comm::build_trees(spec, forest->trees));
      }
      const Status status = comm::verify(schedules);
      CHECK_MESSAGE(status.is_ok(), status.message());
    }
  }
}

}  // namespace
}  // namespace holdfast::topology
