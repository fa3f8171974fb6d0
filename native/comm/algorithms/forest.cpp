// Forest: each tree moves one chunk of the payload, up to its root and down from it. What a rank
// sends on is streamed while it still arrives.
// Source: Zhao et al., "ForestColl: throughput-optimal collective communications on heterogeneous
// network fabrics", 2024, section 5 (reduction along in-trees, broadcast along out-trees).
//
// Critical path: the depth of the deepest tree, up and down; what busies a rank or a link is what
// the planner packed. Copies beyond the wire's own: none but a broadcast's root's. Partial sums
// stay in scratch; outputs are written with final values only.
//
// Without a map all pairs count as alike: a rank each is the hub of a tree, all of which have the
// same share.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"
#include "topology/forest/proof.h"
#include "topology/link_map.h"

namespace holdfast::comm {
namespace {

// A tree's share is cut, and the first piece of all trees goes before the second ones: a result can
// come to where its input was only when the input has left, so that each way waits for the other
// one, a piece long.
constexpr std::size_t kForestChunks = 128;
constexpr std::size_t kForestPieces = 16;
constexpr std::size_t kFewestBlockPieces = 2;
// Shares are cut in whole parts, of parts this much smaller.
constexpr std::int64_t kShareScale = 64;

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

// One tree for each hub: all others send to it, and receive from it. Where the call has a root, the
// hubs are the others, and stand between it and the rest. Where each rank is the root of its block,
// it is its own hub.
std::vector<topology::PlannedTree> hubs(int size, const topology::ForestTask& task) {
  std::vector<topology::PlannedTree> trees;
  const bool by_block = !task.parts_of_roots.empty();
  for (int hub = 0; hub < size && (by_block || trees.size() < topology::kMostTrees); ++hub) {
    if (task.root == hub) continue;
    topology::PlannedTree tree;
    tree.root = task.root.value_or(hub);
    tree.share = 1;
    std::vector<int> next(static_cast<std::size_t>(size), hub);
    next[static_cast<std::size_t>(hub)] = tree.root;
    next[static_cast<std::size_t>(tree.root)] = -1;
    if (task.up) tree.up = next;
    if (task.down) tree.down = next;
    trees.push_back(std::move(tree));
  }
  return trees;
}

// What goes over one tree in one piece.
struct TreePiece {
  const topology::PlannedTree* tree = nullptr;
  std::uint32_t share = 0;  // of its block, in parts of the sum of the block's pieces
};

// Cuts a block among the trees of its root into so many pieces, the heaviest tree's share most
// often; the first pieces of all trees come first. Trees beyond the number of pieces get none.
std::vector<TreePiece> pieces_of(std::vector<const topology::PlannedTree*> trees,
                                 std::size_t pieces) {
  std::stable_sort(trees.begin(), trees.end(),
                   [](const auto* a, const auto* b) { return a->share > b->share; });
  if (trees.size() > pieces) trees.resize(pieces);
  std::vector<std::int64_t> cuts(trees.size(), 1);
  for (std::size_t given = trees.size(); given < pieces; ++given) {
    std::size_t largest = 0;
    for (std::size_t i = 1; i < trees.size(); ++i) {
      if (trees[i]->share * cuts[largest] > trees[largest]->share * cuts[i]) largest = i;
    }
    ++cuts[largest];
  }
  std::vector<TreePiece> found;
  for (std::int64_t round = 0; found.size() < pieces; ++round) {
    for (std::size_t i = 0; i < trees.size(); ++i) {
      if (round >= cuts[i]) continue;
      const std::int64_t share = trees[i]->share * kShareScale / cuts[i];
      found.push_back({trees[i], static_cast<std::uint32_t>(std::max<std::int64_t>(1, share))});
    }
  }
  return found;
}

// Every block is cut alike; piece p of all blocks goes before piece p + 1.
Schedule build_by_block(const BuildSpec& spec, std::span<const topology::PlannedTree> trees) {
  const auto ranks = static_cast<std::size_t>(spec.size);
  const std::size_t pieces = std::clamp(kForestChunks / ranks, kFewestBlockPieces, kForestPieces);
  std::vector<std::vector<TreePiece>> blocks;
  for (int root = 0; root < spec.size; ++root) {
    std::vector<const topology::PlannedTree*> own;
    for (const topology::PlannedTree& tree : trees) {
      if (tree.root == root) own.push_back(&tree);
    }
    CHECK(!own.empty());
    blocks.push_back(pieces_of(std::move(own), pieces));
  }
  Builder b(spec, static_cast<std::uint32_t>(ranks * pieces));
  std::vector<std::uint32_t> shares;
  for (const auto& block : blocks) {
    for (const TreePiece& piece : block) shares.push_back(piece.share);
  }
  b.set_shares(std::move(shares));
  for (std::size_t p = 0; p < pieces; ++p) {
    for (std::size_t root = 0; root < ranks; ++root) {
      const auto chunk = static_cast<int>(root * pieces + p);
      OneTree tree(b, spec, *blocks[root][p].tree, chunk);
      if (spec.collective == Collective::kReduceScatter) {
        tree.sum_up();
        continue;
      }
      tree.send_down(Builder::input(chunk));
      if (tree.is_root()) b.copy(Builder::output(chunk), Builder::input(chunk));
    }
  }
  return std::move(b).finish();
}

}  // namespace

Schedule build_trees(const BuildSpec& spec, std::span<const topology::PlannedTree> trees) {
  if (has_blocks_by_rank(spec.collective)) return build_by_block(spec, trees);
  const std::size_t pieces =
      std::clamp(kForestChunks / trees.size(), std::size_t{1}, kForestPieces);
  const std::size_t chunks = trees.size() * pieces;
  Builder b(spec, static_cast<std::uint32_t>(chunks));
  std::vector<std::uint32_t> shares;
  for (std::size_t i = 0; i < chunks; ++i) {
    shares.push_back(static_cast<std::uint32_t>(trees[i % trees.size()].share));
  }
  b.set_shares(std::move(shares));
  for (std::size_t i = 0; i < chunks; ++i) {
    const auto chunk = static_cast<int>(i);
    OneTree tree(b, spec, trees[i % trees.size()], chunk);
    if (spec.collective != Collective::kBroadcast) tree.sum_up();
    if (spec.collective == Collective::kAllReduce) tree.send_down(Builder::output(chunk));
    if (spec.collective != Collective::kBroadcast) continue;
    tree.send_down(Builder::input(chunk));
    if (tree.is_root()) b.copy(Builder::output(chunk), Builder::input(chunk));
  }
  return std::move(b).finish();
}

topology::ForestTask forest_task(Collective collective, int size, Rank root) {
  topology::ForestTask task;
  task.up = reduces(collective);
  task.down = is_replicated(collective);
  if (is_rooted(collective)) task.root = root.value;
  if (has_blocks_by_rank(collective)) {
    task.parts_of_roots.assign(static_cast<std::size_t>(size), 1);
  }
  return task;
}

Schedule build_forest(const BuildSpec& spec) {
  if (spec.size == 1) {
    Builder b(spec, 1);
    b.copy(Builder::output(0), Builder::input(0));
    return std::move(b).finish();
  }
  if (spec.trees != nullptr) return build_trees(spec, *spec.trees);
  const topology::ForestTask task = forest_task(spec.collective, spec.size, spec.root);
  const topology::LinkMap* map = spec.fabric != nullptr ? spec.fabric->map() : nullptr;
  if (map == nullptr) return build_trees(spec, hubs(spec.size, task));
  // A map has no islands, so that there is a forest.
  const topology::Forest forest = topology::make_forest(map->capacities(), task).value();
  CHECK(topology::prove_trees(map->capacities(), task, forest.trees).is_ok());
  return build_trees(spec, forest.trees);
}

topology::CostTerms cost_forest_all_reduce(int size, std::uint64_t bytes) {
  const double others = static_cast<double>(size - 1) / size * static_cast<double>(bytes);
  return {2.0 * (size - 1), 2 * others, others};
}

topology::CostTerms cost_forest_reduce_scatter(int size, std::uint64_t bytes) {
  const double others = static_cast<double>(size - 1) / size * static_cast<double>(bytes);
  return {size - 1.0, others, others};
}

topology::CostTerms cost_forest_all_gather(int size, std::uint64_t bytes) {
  return {size - 1.0, static_cast<double>(size - 1) / size * static_cast<double>(bytes), 0};
}

topology::CostTerms cost_forest_broadcast(int size, std::uint64_t bytes) {
  return {static_cast<double>(size), static_cast<double>(bytes), 0};
}

topology::CostTerms cost_forest_reduce(int size, std::uint64_t bytes) {
  return {static_cast<double>(size), static_cast<double>(bytes), static_cast<double>(bytes)};
}

}  // namespace holdfast::comm
