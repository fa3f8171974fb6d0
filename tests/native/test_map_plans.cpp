// What a group keeps of its plans on maps when it loses ranks: the base's candidates without the
// dead, which are the same whoever makes them, and full plans that are found meanwhile.
#include "comm/plan/map_plans.h"

#include <doctest/doctest.h>

#include <deque>
#include <utility>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/verifier.h"
#include "site_maps.h"
#include "topology/forest/proof.h"

namespace holdfast::comm {
namespace {

using topology::Fabric;

constexpr std::uint64_t kMiB = 1 << 20;

// Two sites of four; rank 5 has gone.
struct Loss {
  std::shared_ptr<const Fabric> base =
      std::make_shared<const Fabric>(testing::on(testing::sites({0, 0, 0, 0, 1, 1, 1, 1})));
  std::vector<int> place{0, 1, 2, 3, 4, -1, 5, 6};
  Fabric full = testing::on(testing::sites({0, 0, 0, 0, 1, 1, 1}));
  Fabric at_first = Fabric(full).after(base, place);
};

// Runs its tasks when it is told to.
class OnDemand final : public Background {
 public:
  void run(Task task) override { tasks_.push_back(std::move(task)); }
  std::size_t waiting() const { return tasks_.size(); }
  void run_all() {
    while (!tasks_.empty()) {
      tasks_.front()();
      tasks_.pop_front();
    }
  }

 private:
  std::deque<Task> tasks_;
};

void check_same(const std::vector<MapCandidate>& a, const std::vector<MapCandidate>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].row == b[i].row);
    CHECK(a[i].price.latency_s == b[i].price.latency_s);
    CHECK(a[i].price.s_per_byte == b[i].price.s_per_byte);
    REQUIRE((a[i].trees == nullptr) == (b[i].trees == nullptr));
    if (a[i].trees) CHECK(*a[i].trees == *b[i].trees);
  }
}

TEST_CASE("a loss leaves the base's rows at its prices, and its trees without the dead") {
  const Loss loss;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    MapPlans plans(nullptr);
    const auto before = plans.of({collective, kMiB, *loss.base});
    const auto after = plans.of({collective, kMiB, loss.at_first});
    REQUIRE(after.size() == before.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      CHECK(after[i].row == before[i].row);
      CHECK(after[i].price.s_per_byte == before[i].price.s_per_byte);
      if (after[i].trees == nullptr) continue;
      const auto task = forest_task(collective, 7, Rank{});
      CHECK(topology::prove_trees(loss.full.map()->capacities(), task, *after[i].trees).is_ok());
      std::vector<Schedule> schedules;
      for (int r = 0; r < 7; ++r) {
        BuildSpec spec{collective, {r}, 7, {}, &loss.at_first};
        spec.trees = after[i].trees.get();
        schedules.push_back(after[i].row->build(spec));
      }
      CHECK(verify(schedules).is_ok());
    }
  }
}

TEST_CASE("who knows the base's plans and who does not find the same ones") {
  const Loss loss;
  MapPlans knows(nullptr);
  MapPlans knows_not(nullptr);
  const Problem before{Collective::kAllReduce, kMiB, *loss.base};
  const Problem now{Collective::kAllReduce, kMiB, loss.at_first};
  [[maybe_unused]] const auto& unused = knows.of(before);
  check_same(knows.of(now), knows_not.of(now));
  // A fabric that is made anew, as each view does, is known.
  const Loss again;
  check_same(knows.of({Collective::kAllReduce, kMiB, again.at_first}), knows_not.of(now));
}

TEST_CASE("a root keeps its rank of the world, whatever its number") {
  const Loss loss;
  MapPlans plans(nullptr);
  const auto before = plans.of({Collective::kBroadcast, kMiB, *loss.base, false, Rank{6}});
  const auto after = plans.of({Collective::kBroadcast, kMiB, loss.at_first, false, Rank{5}});
  REQUIRE(after.size() == before.size());
  for (const MapCandidate& candidate : after) {
    if (candidate.trees == nullptr) continue;
    for (const auto& tree : *candidate.trees) CHECK(tree.root == 5);
  }
}

TEST_CASE("full plans are found in the background, or by whoever needs them first") {
  const Loss loss;
  const Problem before{Collective::kAllReduce, kMiB, *loss.base};
  const Problem full{Collective::kAllReduce, kMiB, loss.full};
  const auto wanted = candidates_on_map(full);
  for (const bool in_time : {true, false}) {
    const auto background = std::make_shared<OnDemand>();
    MapPlans plans(background);
    [[maybe_unused]] const auto& unused = plans.of(before);
    plans.expect(loss.full, *loss.base, loss.place);
    CHECK(background->waiting() == 1);
    plans.expect(loss.full, *loss.base, loss.place);  // of another group's view: once is enough
    CHECK(background->waiting() == 1);
    if (in_time) background->run_all();
    check_same(plans.of(full), wanted);
    background->run_all();
    check_same(plans.of(full), wanted);
  }
}

TEST_CASE("what was not asked for before the loss is not found in the background") {
  const Loss loss;
  const auto background = std::make_shared<OnDemand>();
  MapPlans plans(background);
  plans.expect(loss.full, *loss.base, loss.place);
  CHECK(background->waiting() == 0);
  // The root has gone.
  [[maybe_unused]] const auto& unused =
      plans.of({Collective::kBroadcast, kMiB, *loss.base, false, Rank{5}});
  plans.expect(loss.full, *loss.base, loss.place);
  CHECK(background->waiting() == 0);
}

TEST_CASE("where a pair has no way all is planned anew") {
  const auto parse = [](const char* text) {
    return std::make_shared<const topology::LinkMap>(topology::LinkMap::parse(text).value());
  };
  const auto base = std::make_shared<const Fabric>(
      testing::on(parse(R"({"format":1,"ranks":4,"alpha_us":1,)"
                        R"("gbit_per_s":[[0,1,0,1],[1,0,1,1],[0,1,0,1],[1,1,1,0]]})")));
  const Fabric full = testing::on(
      parse(R"({"format":1,"ranks":3,"alpha_us":1,"gbit_per_s":[[0,1,0],[1,0,1],[0,1,0]]})"));
  const Fabric at_first = Fabric(full).after(base, {0, 1, 2, -1});
  MapPlans plans(nullptr);
  check_same(plans.of({Collective::kAllReduce, kMiB, at_first}),
             candidates_on_map({Collective::kAllReduce, kMiB, full}));
}

TEST_CASE("of many ranks trees alone are planned, and for large calls alone") {
  std::vector<int> site_of;
  for (int r = 0; r < kMostPricedRanks + 2; ++r) site_of.push_back(r % 2);
  const Fabric many = testing::on(testing::sites(site_of));
  CHECK_FALSE(goes_by_map({Collective::kAllReduce, kLeastByMap - 1, many}));
  CHECK_FALSE(goes_by_map({Collective::kReduceScatter, kMiB, many}));
  MapPlans plans(nullptr);
  const auto& found = plans.of({Collective::kAllReduce, kMiB, many});
  REQUIRE(found.size() == 1);
  CHECK(found[0].row->algorithm == "forest");
  CHECK(found[0].trees != nullptr);
}

}  // namespace
}  // namespace holdfast::comm
