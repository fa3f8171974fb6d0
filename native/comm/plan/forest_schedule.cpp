// Forest: each tree moves one chunk of the payload, up to its root and down from it. What a rank
// sends on is streamed while it still arrives.
// Source: Zhao et al., "ForestColl: throughput-optimal collective communications on heterogeneous
// network fabrics", 2024, section 5 (reduction along in-trees, broadcast along out-trees).
//
// Critical path: the depth of the deepest tree, up and down; what busies a rank or a link is what
// the planner packed. Copies beyond the wire's own: none but a broadcast's root's. Partial sums
// stay in scratch; outputs are written with final values only.
#include "comm/plan/forest_schedule.h"

#include <utility>

#include "base/check.h"

namespace holdfast::comm {
namespace {

// One tree, as one rank has it.
class OneTree {
 public:
  OneTree(Builder& builder, const BuildSpec& spec, const topology::PlannedTree& tree, int chunk)
      : b_(builder),
        self_(spec.rank.value),
        tree_(tree),
        in_(Builder::input(chunk)),
        out_(Builder::output(chunk)) {}

  // Leaves the sum of all below this rank with the one above it; at the root, in the output.
  void sum_up() {
    Slot sum = in_;
    const std::vector<int> below = those_of(tree_.up);
    for (std::size_t i = 0; i < below.size(); ++i) {
      const Slot arriving = b_.scratch(in_);
      b_.recv(below[i], arriving);
      const bool is_last = is_root() && i + 1 == below.size();
      const Slot next = is_last ? out_ : b_.scratch(in_);
      if (is_last) {
        b_.reduce_final(next, sum, arriving);
      } else {
        b_.reduce(next, sum, arriving);
      }
      sum = next;
    }
    if (!is_root()) b_.send(above(tree_.up), sum);
  }

  // `held`: where the root has the result.
  void send_down(Slot held) {
    if (!is_root()) {
      held = out_;
      b_.recv(above(tree_.down), held);
    }
    for (const int below : those_of(tree_.down)) b_.send(below, held);
  }

  bool is_root() const { return tree_.root == self_; }

 private:
  int above(const std::vector<int>& way) const { return way[static_cast<std::size_t>(self_)]; }
  std::vector<int> those_of(const std::vector<int>& way) const {
    std::vector<int> below;
    for (std::size_t r = 0; r < way.size(); ++r) {
      if (way[r] == self_) below.push_back(static_cast<int>(r));
    }
    return below;
  }

  Builder& b_;
  int self_;
  const topology::PlannedTree& tree_;
  Slot in_;
  Slot out_;
};

}  // namespace

Schedule build_forest(const BuildSpec& spec, std::span<const topology::PlannedTree> trees) {
  CHECK(spec.collective == Collective::kAllReduce || spec.collective == Collective::kBroadcast ||
        spec.collective == Collective::kReduce);
  Builder b(spec, static_cast<std::uint32_t>(trees.size()));
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const auto chunk = static_cast<int>(i);
    OneTree tree(b, spec, trees[i], chunk);
    if (spec.collective != Collective::kBroadcast) tree.sum_up();
    if (spec.collective == Collective::kAllReduce) tree.send_down(Builder::output(chunk));
    if (spec.collective != Collective::kBroadcast) continue;
    tree.send_down(Builder::input(chunk));
    if (tree.is_root()) b.copy(Builder::output(chunk), Builder::input(chunk));
  }
  return std::move(b).finish();
}

}  // namespace holdfast::comm
