#include "topology/forest/proof.h"

#include <string>
#include <vector>

namespace holdfast::topology {
namespace {

// Where each rank has been reached from below: by a walk that ended at the root.
class WayProof {
 public:
  WayProof(const Capacities& capacities, const PlannedTree& tree)
      : capacities_(capacities), tree_(tree), reaches_(as_index(capacities.ranks)) {}

  // What is wrong, or nothing.
  const char* check(const std::vector<int>& way, bool is_up) {
    const int n = capacities_.ranks;
    if (way.size() != as_index(n)) return "a way is not of all ranks";
    if (way[as_index(tree_.root)] != -1) return "a root is below another rank";
    for (int r = 0; r < n; ++r) {
      const int next = way[as_index(r)];
      if (r == tree_.root) continue;
      if (next < 0 || next >= n || next == r) return "a rank is joined to none";
      const std::size_t pair = is_up ? capacities_.pair(r, next) : capacities_.pair(next, r);
      if (capacities_.kbit_per_s[pair] <= 0) return "a hop has no way";
    }
    return spans(way) ? nullptr : "ranks go round in a circle";
  }

 private:
  // Each rank is walked over once: a walk ends where an earlier one has been.
  bool spans(const std::vector<int>& way) {
    reaches_.assign(way.size(), 0);
    reaches_[as_index(tree_.root)] = 1;
    std::vector<int> walk;
    for (int r = 0; r < capacities_.ranks; ++r) {
      walk.clear();
      for (int at = r; reaches_[as_index(at)] == 0; at = way[as_index(at)]) {
        if (walk.size() == way.size()) return false;
        walk.push_back(at);
      }
      for (const int at : walk) reaches_[as_index(at)] = 1;
    }
    return true;
  }

  const Capacities& capacities_;
  const PlannedTree& tree_;
  std::vector<char> reaches_;
};

const char* wrong_with(const Capacities& capacities, const ForestTask& task,
                       const PlannedTree& tree) {
  if (tree.share <= 0) return "a share is not positive";
  const bool exists = tree.root >= 0 && tree.root < capacities.ranks;
  if (!exists || (task.root && *task.root != tree.root)) return "a root is another rank";
  if (tree.up.empty() == task.up || tree.down.empty() == task.down) return "a way is missing";
  WayProof proof(capacities, tree);
  if (task.up) {
    if (const char* wrong = proof.check(tree.up, true)) return wrong;
  }
  return task.down ? proof.check(tree.down, false) : nullptr;
}

}  // namespace

Status prove_trees(const Capacities& capacities, const ForestTask& task,
                   std::span<const PlannedTree> trees) {
  if (trees.empty() || trees.size() > kMostTrees) {
    return {Code::kProtocolError, "a forest of " + std::to_string(trees.size()) + " trees"};
  }
  std::int64_t shares = 0;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    shares += trees[i].share;
    if (const char* wrong = wrong_with(capacities, task, trees[i])) {
      return {Code::kProtocolError, "tree " + std::to_string(i) + ": " + wrong};
    }
  }
  if (shares == kWholeShare) return Status::ok();
  return {Code::kProtocolError, "the shares do not add up to the whole"};
}

}  // namespace holdfast::topology
