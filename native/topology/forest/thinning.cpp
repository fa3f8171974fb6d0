// The end of the search for a forest: fewer trees, and none that is too light.
#include <algorithm>
#include <cstddef>

#include "topology/forest/packing.h"

namespace holdfast::topology {
namespace {

constexpr int kLighterRounds = 4;
// Where weight moves inside the trees of each root, progress is slower.
constexpr int kStepsByRoots = 4;
// A share that is not worth a message of its own.
constexpr double kLeastShare = 1.0 / 1024;

}  // namespace

// A root with a part of its own keeps one tree, however light; its others take what is given up.
void Packing::keep_the_heaviest(std::size_t count) {
  std::stable_sort(
      planted_.begin(), planted_.end(),
      [](const WeightedTree& a, const WeightedTree& b) { return a.weight > b.weight; });
  if (planted_.size() <= count) return;
  std::vector<bool> has_tree(as_index(n_), parts_.empty());
  std::stable_partition(planted_.begin(), planted_.end(), [&](const WeightedTree& planted) {
    const auto root = as_index(planted.tree.root);
    const bool is_first = !has_tree[root];
    has_tree[root] = true;
    return is_first;
  });
  const auto roots = static_cast<std::size_t>(
      std::count_if(parts_.begin(), parts_.end(), [](double part) { return part > 0; }));
  planted_.resize(std::min(planted_.size(), std::max(count, roots)));
  std::vector<double> sums(as_index(n_), 0);
  double sum = 0;
  for (const WeightedTree& planted : planted_) {
    sums[as_index(planted.tree.root)] += planted.weight;
    sum += planted.weight;
  }
  for (WeightedTree& planted : planted_) {
    const auto root = as_index(planted.tree.root);
    planted.weight =
        parts_.empty() ? planted.weight / sum : planted.weight / sums[root] * parts_[root];
  }
  reckon();
}

// Moves weight between the trees that are there.
void Packing::settle(int steps) {
  if (!parts_.empty()) steps = kStepsByRoots * steps / n_ + 1;  // each is one for every root
  for (int i = 0; i < steps && planted_.size() > 1; ++i) {
    price();
    if (parts_.empty()) shift(dearest(), cheapest_planted());
    for (int r = 0; r < n_; ++r) {
      if (has_part(r)) shift(dearest(r), cheapest_planted(r));
    }
  }
}

// Leaves so many trees as may be, a few less at a time, and none that is too light.
void Packing::lighten() {
  const int steepest = doublings_;
  const std::size_t most_of_them = most_trees(task_);
  while (planted_.size() > most_of_them) {
    const std::size_t before = planted_.size();
    keep_the_heaviest(std::max(most_of_them, before * 3 / 4));
    doublings_ = std::max(4, steepest - 2);
    settle(static_cast<int>(planted_.size()));
    doublings_ = steepest;
    settle(static_cast<int>(planted_.size()));
  }
  for (int round = 0; round < kLighterRounds; ++round) {
    const auto heavy = std::count_if(planted_.begin(), planted_.end(), [](const auto& planted) {
      return planted.weight >= kLeastShare;
    });
    if (static_cast<std::size_t>(heavy) == planted_.size()) break;
    keep_the_heaviest(static_cast<std::size_t>(heavy));
    settle(2 * static_cast<int>(planted_.size()));
  }
}

}  // namespace holdfast::topology
