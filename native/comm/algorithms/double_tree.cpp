// Double binary tree: two trees over the same ranks, each carrying half of the chunks. A rank that
// is inside one tree is a leaf of the other, so that all links of all ranks work at full rate, with
// latency logarithmic in the ranks.
// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 2009, sections 2 and 3. Both trees hang below the root (of an
// all-reduce: rank 0); they are in-order trees of the other ranks, the second shifted by one.
//
// Critical path, n ranks, S bytes, K chunks: about (2 log2 n + K) S/K for broadcast and reduce,
// twice that for all_reduce. Per rank: broadcast and reduce S received and S sent, all_reduce 2 S.
// Copies beyond the wire's own: none. Partial sums live in scratch; all ranks get the root's sums.
#include <vector>

#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

// Chunks of a tree: enough that its levels work at the same time, and few enough that each is worth
// a message.
constexpr int kChunksPerTree = 8;
constexpr int kTrees = 2;
constexpr int kChunks = kTrees * kChunksPerTree;

// One tree as this rank sees it. Nodes are ranks counted from the root. A place is a node's
// position in the in-order tree; the root has place 0, above the tree.
class Tree {
 public:
  Tree(const BuildSpec& spec, int which) : size_(spec.size), root_(spec.root.value), which_(which) {
    const int node = (spec.rank.value - root_ + size_) % size_;
    const int place = place_of(node);
    if (place > 0) parent_ = rank_at(above(place));
    for (int other = 1; other < size_; ++other) {
      if (other != place && above(other) == place) children_.push_back(rank_at(other));
    }
  }
  int parent() const { return parent_; }  // -1 at the root
  const std::vector<int>& children() const { return children_; }

 private:
  // The parent's place, found by the lowest set bit. If it is past the last rank, the next lower
  // ancestor that exists.
  int above(int place) const {
    const int bit = place & -place;
    const int up = (place ^ bit) | (bit << 1);
    return up < size_ ? up : place ^ bit;
  }
  int place_of(int node) const {
    if (node == 0 || which_ == 0) return node;
    return node % (size_ - 1) + 1;
  }
  int rank_at(int place) const {
    int node = place;
    if (place > 0 && which_ == 1) node = place == 1 ? size_ - 1 : place - 1;
    return (node + root_) % size_;
  }

  int size_;
  int root_;
  int which_;
  int parent_ = -1;
  std::vector<int> children_;
};

struct Trees {
  Tree trees[kTrees];
  explicit Trees(const BuildSpec& spec) : trees{Tree(spec, 0), Tree(spec, 1)} {}
  const Tree& of(int chunk) const { return trees[chunk % kTrees]; }
};

// Adds the children's sums to this rank's input, in the order of the tree, and hands them on.
void reduce_up(Builder& b, const Tree& tree, int chunk) {
  const Slot own = Builder::input(chunk);
  Slot sum = own;
  for (std::size_t i = 0; i < tree.children().size(); ++i) {
    const Slot arriving = b.scratch(own);
    b.recv(tree.children()[i], arriving);
    if (tree.parent() < 0 && i + 1 == tree.children().size()) {
      b.reduce_final(Builder::output(chunk), sum, arriving);
      return;
    }
    const Slot next = b.scratch(own);
    b.reduce(next, sum, arriving);
    sum = next;
  }
  if (tree.parent() >= 0) b.send(tree.parent(), sum);
}

void pass_down(Builder& b, const Tree& tree, Slot held) {
  if (tree.parent() >= 0) b.recv(tree.parent(), held);
  for (const int child : tree.children()) b.send(child, held);
}

// The cost until the first chunk is through, and then of one chunk after the other.
topology::CostTerms cost_one_way(int size, std::uint64_t bytes) {
  const double steps = topology::doublings(size) + kChunksPerTree;
  return {steps, steps / kChunksPerTree * static_cast<double>(bytes), 0};
}

}  // namespace

Schedule build_double_tree(const BuildSpec& spec) {
  Builder b(spec, kChunks);
  const Trees trees(spec);
  const bool root = spec.rank == spec.root;
  for (int c = 0; c < kChunks; ++c) {
    const Tree& tree = trees.of(c);
    if (spec.size == 1) {
      b.copy(Builder::output(c), Builder::input(c));
      continue;
    }
    if (spec.collective != Collective::kBroadcast) reduce_up(b, tree, c);
    if (spec.collective == Collective::kAllReduce) pass_down(b, tree, Builder::output(c));
    if (spec.collective == Collective::kBroadcast) {
      pass_down(b, tree, root ? Builder::input(c) : Builder::output(c));
      if (root) b.copy(Builder::output(c), Builder::input(c));
    }
  }
  return std::move(b).finish();
}

topology::CostTerms cost_double_tree_broadcast(int size, std::uint64_t bytes) {
  return cost_one_way(size, bytes);
}

topology::CostTerms cost_double_tree_reduce(int size, std::uint64_t bytes) {
  topology::CostTerms terms = cost_one_way(size, bytes);
  terms.reduced_bytes = static_cast<double>(bytes);
  return terms;
}

topology::CostTerms cost_double_tree_all_reduce(int size, std::uint64_t bytes) {
  const topology::CostTerms one = cost_one_way(size, bytes);
  return {2 * one.messages, 2 * one.wire_bytes, static_cast<double>(bytes)};
}

}  // namespace holdfast::comm
