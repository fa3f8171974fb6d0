// Splices: forests of those who are left are sound whatever was lost, and not far from a plan from
// nothing. The proof of trees refuses each way in which they can be wrong.
#include "topology/forest/splice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/verifier.h"
#include "random_maps.h"
#include "sanitized.h"
#include "topology/forest/proof.h"

namespace holdfast::topology {
namespace {

using testing::Loss;
using testing::number;
using testing::Random;

std::vector<int> some_ranks(Random& random, int n, int most) {
  std::vector<int> dead;
  for (int i = number(random, 1, most); i > 0; --i) dead.push_back(number(random, 0, n - 1));
  return dead;
}

Status prove_steps(const Forest& forest, int n) {
  std::vector<comm::Schedule> schedules;
  for (int r = 0; r < n; ++r) {
    comm::BuildSpec spec;
    spec.collective = comm::Collective::kAllReduce;
    spec.rank = Rank{r};
    spec.size = n;
    schedules.push_back(comm::build_trees(spec, forest.trees));
  }
  return comm::verify(schedules);
}

// A forest that is quick to make: chains, stars and random trees over the ways that there are.
Forest random_forest(Random& random, const Capacities& map, int trees) {
  Forest forest;
  for (int t = 0; t < trees; ++t) {
    PlannedTree tree;
    tree.root = number(random, 0, map.ranks - 1);
    tree.share = kWholeShare / trees + (t < kWholeShare % trees ? 1 : 0);
    for (const bool is_up : {true, false}) {
      std::vector<int>& way = is_up ? tree.up : tree.down;
      way.assign(as_index(map.ranks), -1);
      std::vector<int> in{tree.root};
      while (in.size() < as_index(map.ranks)) {
        const int r = number(random, 0, map.ranks - 1);
        const int next = in[as_index(number(random, 0, static_cast<int>(in.size()) - 1))];
        const std::size_t pair = is_up ? map.pair(r, next) : map.pair(next, r);
        const bool is_in = std::find(in.begin(), in.end(), r) != in.end();
        if (is_in || map.kbit_per_s[pair] == 0) continue;
        way[as_index(r)] = next;
        in.push_back(r);
      }
    }
    forest.trees.push_back(std::move(tree));
  }
  return forest;
}

TEST_CASE("whatever is lost, what is spliced is a forest of those who are left") {
  Random random(23);
  int spliced = 0;
  for (int round = 0; round < (holdfast::testing::kSanitized ? 100 : 1000); ++round) {
    CAPTURE(round);
    const int n = round % 50 == 0 ? number(random, 64, 256) : number(random, 8, 24);
    const Capacities map = testing::random_map(random, n);
    const Forest forest = random_forest(random, map, number(random, 1, 8));
    REQUIRE(prove_trees(map, {}, forest.trees).is_ok());
    const Loss loss = testing::lose(map, some_ranks(random, n, 4));
    const auto made = splice_forest(forest, loss.left, {}, loss.place);
    // Ways that are missing may leave islands.
    if (!made) {
      CHECK_FALSE(make_forest(loss.left, {}));
      continue;
    }
    ++spliced;
    const Status proven = prove_trees(loss.left, {}, made->trees);
    REQUIRE_MESSAGE(proven.is_ok(), proven.message());
    CHECK(made->kbit_per_s <= made->bound_kbit_per_s * 1.000001);
    CHECK(splice_forest(forest, loss.left, {}, loss.place)->trees == made->trees);
    if (n > 9) continue;
    const Status status = prove_steps(*made, loss.left.ranks);
    CHECK_MESSAGE(status.is_ok(), status.message());
  }
  CHECK(spliced > 80);
}

TEST_CASE("a spliced plan is not far from a plan from nothing") {
  Random random(31);
  std::vector<double> ratios;
  for (int round = 0; round < 40; ++round) {
    const int n = number(random, 12, 24);
    const Capacities map = testing::random_map(random, n);
    const auto forest = make_forest(map, {});
    REQUIRE(forest);
    const Loss loss = testing::lose(map, {number(random, 0, n - 1)});
    const auto made = splice_forest(*forest, loss.left, {}, loss.place);
    const auto anew = make_forest(loss.left, {});
    REQUIRE(made.has_value() == anew.has_value());
    if (made) ratios.push_back(anew->kbit_per_s / made->kbit_per_s);
  }
  std::sort(ratios.begin(), ratios.end());
  REQUIRE(!ratios.empty());
  MESSAGE("median ", ratios[ratios.size() / 2], ", worst ", ratios.back());
  CHECK(ratios[ratios.size() / 2] < 1.2);
  CHECK(ratios.back() < 2.5);
}

TEST_CASE("without its root a rooted forest has no splice") {
  Random random(37);
  const Capacities map = testing::random_map(random, 9);
  const ForestTask task{.up = false, .down = true, .root = 4};
  const auto forest = make_forest(map, task);
  REQUIRE(forest);
  const Loss other = testing::lose(map, {2});
  const ForestTask rest{.up = false, .down = true, .root = 3};
  const auto made = splice_forest(*forest, other.left, rest, other.place);
  if (made) CHECK(prove_trees(other.left, rest, made->trees).is_ok());
  const Loss root = testing::lose(map, {4});
  const ForestTask none{.up = false, .down = true, .root = 8};
  CHECK_FALSE(splice_forest(*forest, root.left, none, root.place));
}

TEST_CASE("trees that are wrong are refused, whatever is wrong") {
  Random random(41);
  Capacities map;
  map.ranks = 8;
  map.kbit_per_s.assign(64, 1000);
  map.kbit_per_s[map.pair(1, 2)] = 0;
  const Forest forest = random_forest(random, map, 4);
  REQUIRE(prove_trees(map, {}, forest.trees).is_ok());
  const auto refuses = [&](const char* why, auto spoil) {
    std::vector<PlannedTree> trees = forest.trees;
    spoil(trees);
    const Status status = prove_trees(map, {}, trees);
    CHECK(status.code() == Code::kProtocolError);
    CHECK_MESSAGE(status.message().find(why) != std::string::npos, status.message());
  };
  using Trees = std::vector<PlannedTree>;
  refuses("forest of 0", [](Trees& t) { t.clear(); });
  refuses("not positive", [](Trees& t) { t[1].share = 0; });
  refuses("add up", [](Trees& t) { ++t[1].share; });
  refuses("another rank", [](Trees& t) { t[2].root = 8; });
  refuses("a way is missing", [](Trees& t) { t[2].up.clear(); });
  refuses("not of all", [](Trees& t) { t[2].down.pop_back(); });
  refuses("a root is below", [](Trees& t) { t[0].up[as_index(t[0].root)] = (t[0].root + 1) % 8; });
  refuses("joined to none", [](Trees& t) { t[0].up[as_index((t[0].root + 1) % 8)] = 9; });
  refuses("no way", [](Trees& t) {
    t[0].root = 0;
    t[0].up = {-1, 2, 0, 0, 0, 0, 0, 0};
  });
  refuses("circle", [](Trees& t) {
    t[0].root = 0;
    t[0].up = {-1, 0, 0, 0, 0, 0, 0, 0};
    t[0].down = {-1, 0, 0, 4, 3, 0, 0, 0};
  });
}

}  // namespace
}  // namespace holdfast::topology
