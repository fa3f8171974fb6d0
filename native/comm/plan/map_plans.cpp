#include "comm/plan/map_plans.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"
#include "topology/forest/proof.h"
#include "topology/forest/splice.h"

namespace holdfast::comm {
namespace {

// A view's own fabric, its base, the map before and the one to come; and the next view's.
constexpr std::size_t kFabricsKept = 6;
// Whoever needs what is being made elsewhere makes it, after this time, itself.
constexpr Duration kPatience = std::chrono::seconds(2);

bool has_all_ways(const topology::Capacities& capacities) {
  for (int from = 0; from < capacities.ranks; ++from) {
    for (int to = 0; to < capacities.ranks; ++to) {
      if (from != to && capacities.kbit_per_s[capacities.pair(from, to)] == 0) return false;
    }
  }
  return true;
}

int place_before(std::span<const int> place, int rank) {
  return static_cast<int>(std::find(place.begin(), place.end(), rank) - place.begin());
}

}  // namespace

std::vector<MapCandidate> without_the_gone(const std::vector<MapCandidate>& of_base,
                                           const Problem& problem) {
  const topology::Fabric& fabric = problem.fabric;
  const topology::Capacities& capacities = fabric.map()->capacities();
  if (!has_all_ways(capacities)) return {};
  std::vector<MapCandidate> left;
  for (const MapCandidate& candidate : of_base) {
    if (!may_choose_on_map(*candidate.row, problem)) continue;
    if (candidate.trees == nullptr) {
      left.push_back(candidate);
      continue;
    }
    const auto task = forest_task(problem.collective, capacities.ranks, problem.root);
    topology::Forest before;
    before.trees = *candidate.trees;
    auto spliced = topology::splice_forest(before, capacities, task, fabric.place());
    if (!spliced || !topology::prove_trees(capacities, task, spliced->trees).is_ok()) continue;
    left.push_back(
        {candidate.row, candidate.price,
         std::make_shared<const std::vector<topology::PlannedTree>>(std::move(spliced->trees))});
  }
  return left;
}

// What a task makes, key by key, and whoever asked first may take over.
class MapPlans::Making {
 public:
  Making(topology::Fabric fabric, const std::vector<Key>& keys) : fabric_(std::move(fabric)) {
    for (const Key& key : keys) parts_.try_emplace(key);
  }

  // The background's part.
  void run() {
    for (;;) {
      const std::optional<Key> key = next();
      if (!key) return;
      const auto [collective, root, in_rank_order] = *key;
      std::vector<MapCandidate> made =
          candidates_on_map({collective, kLeastByMap, fabric_, in_rank_order, Rank{root}});
      const std::lock_guard lock(mutex_);
      parts_.at(*key) = {PartState::kMade, std::move(made)};
      changed_.notify_all();
    }
  }

  // What was made for the key; nothing: whoever asks makes it.
  std::optional<std::vector<MapCandidate>> take(const Key& key) {
    std::unique_lock lock(mutex_);
    const auto found = parts_.find(key);
    if (found == parts_.end()) return std::nullopt;
    Part& part = found->second;
    changed_.wait_for(lock, kPatience, [&] { return part.state != PartState::kBeingMade; });
    if (part.state == PartState::kMade) return std::move(part.made);
    if (part.state == PartState::kWaits) part.state = PartState::kTaken;
    return std::nullopt;
  }

  void drop() {
    const std::lock_guard lock(mutex_);
    dropped_ = true;
  }

 private:
  enum class PartState { kWaits, kBeingMade, kMade, kTaken };
  struct Part {
    PartState state = PartState::kWaits;
    std::vector<MapCandidate> made = {};
  };

  std::optional<Key> next() {
    const std::lock_guard lock(mutex_);
    if (dropped_) return std::nullopt;
    for (auto& [key, part] : parts_) {
      if (part.state != PartState::kWaits) continue;
      part.state = PartState::kBeingMade;
      return key;
    }
    return std::nullopt;
  }

  const topology::Fabric fabric_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::map<Key, Part> parts_;
  bool dropped_ = false;
};

MapPlans::~MapPlans() {
  for (const OfFabric& known : known_) {
    if (known.making) known.making->drop();
  }
}

MapPlans::OfFabric& MapPlans::entry(const topology::Fabric& fabric) {
  auto found = std::find_if(known_.begin(), known_.end(),
                            [&](const OfFabric& known) { return known.fabric == fabric; });
  if (found == known_.end()) {
    found = std::find_if(known_.begin(), known_.end(),
                         [&](const OfFabric& known) { return known.fabric.is_like(fabric); });
    if (found != known_.end()) found->fabric = fabric;  // so that it is found faster
  }
  if (found == known_.end()) {
    if (known_.size() == kFabricsKept) {
      if (known_.back().making) known_.back().making->drop();
      known_.pop_back();
    }
    known_.push_front({fabric});
  } else {
    known_.splice(known_.begin(), known_, found);
  }
  return known_.front();
}

const std::vector<MapCandidate>& MapPlans::of(const Problem& problem) {
  CHECK(goes_by_map(problem));
  const int root = is_rooted(problem.collective) ? problem.root.value : 0;
  const Key key{problem.collective, root, problem.in_rank_order};
  OfFabric& known = entry(problem.fabric);
  const auto found = known.found.find(key);
  if (found != known.found.end()) return found->second;
  return known.found.emplace(key, find(known, problem, key)).first->second;
}

std::vector<MapCandidate> MapPlans::find(OfFabric& known, const Problem& problem, const Key& key) {
  if (known.making) {
    if (auto made = known.making->take(key)) return *std::move(made);
  }
  const topology::Fabric* base = problem.fabric.base();
  if (base == nullptr) return candidates_on_map(problem);
  Problem before{problem.collective, problem.bytes, *base, problem.in_rank_order, problem.root};
  if (is_rooted(problem.collective)) {
    before.root = Rank{place_before(problem.fabric.place(), problem.root.value)};
  }
  if (goes_by_map(before)) {
    std::vector<MapCandidate> left = without_the_gone(of(before), problem);
    if (!left.empty()) return left;
  }
  return candidates_on_map(problem);
}

void MapPlans::expect(const topology::Fabric& fabric, const topology::Fabric& before,
                      std::span<const int> place) {
  if (background_ == nullptr || fabric.map() == nullptr) return;
  std::vector<Key> keys;
  for (const auto& [key, found] : entry(before).found) {
    auto [collective, root, in_rank_order] = key;
    if (is_rooted(collective)) root = place[static_cast<std::size_t>(root)];
    if (root < 0) continue;
    if (goes_by_map({collective, kLeastByMap, fabric, in_rank_order, Rank{root}})) {
      keys.emplace_back(collective, root, in_rank_order);
    }
  }
  OfFabric& known = entry(fabric);
  std::erase_if(keys, [&](const Key& key) { return known.found.contains(key); });
  if (known.making || keys.empty()) return;
  known.making = std::make_shared<Making>(fabric, keys);
  background_->run([making = known.making] { making->run(); });
}

}  // namespace holdfast::comm
