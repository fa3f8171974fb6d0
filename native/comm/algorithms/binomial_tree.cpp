// Binomial tree: broadcast and reduce in log2(n) rounds from or to a root; for small and medium
// messages.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH", IJHPCA 2005, sections 5 (broadcast) and 6.2 (reduce).
//
// Critical path, n ranks, S bytes: ceil(log2 n) messages of S. A rank sends (broadcast) or receives
// (reduce) up to ceil(log2 n) times. Copies beyond the wire's own: none; segments stream down the
// tree while they still arrive. Reduce keeps partial sums in scratch; only the root's output is
// written, with final values.
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

// Ranks are numbered from the root; a node's children are at distance 1, 2, 4, ... below its lowest
// set bit.
struct BinomialTree {
  int size;
  int root;
  int node;  // this rank's number counted from the root

  explicit BinomialTree(const BuildSpec& spec)
      : size(spec.size),
        root(spec.root.value),
        node((spec.rank.value - spec.root.value + spec.size) % spec.size) {}

  int rank_of(int other) const { return (other + root) % size; }
  bool is_root() const { return node == 0; }
  int lowest_bit() const { return node & -node; }
  int parent() const { return rank_of(node - lowest_bit()); }
  // One past the largest distance of a child.
  int reach() const { return is_root() ? size : lowest_bit(); }
};

}  // namespace

Schedule build_binomial_broadcast(const BuildSpec& spec) {
  Builder b(spec, 1);
  const BinomialTree tree(spec);
  const Slot held = tree.is_root() ? Builder::input(0) : Builder::output(0);
  if (!tree.is_root()) b.recv(tree.parent(), held);
  int distance = 1;
  while (distance < tree.reach() && tree.node + distance < tree.size) distance *= 2;
  // The child with the largest subtree is served first: its path is the longest.
  for (distance /= 2; distance > 0; distance /= 2) {
    if (distance < tree.reach() && tree.node + distance < tree.size) {
      b.send(tree.rank_of(tree.node + distance), held);
    }
  }
  if (tree.is_root()) b.copy(Builder::output(0), held);
  return std::move(b).finish();
}

Schedule build_binomial_reduce(const BuildSpec& spec) {
  Builder b(spec, 1);
  const BinomialTree tree(spec);
  const Slot own = Builder::input(0);
  Slot sum = own;
  for (int distance = 1; distance < tree.reach() && tree.node + distance < tree.size;
       distance *= 2) {
    const Slot arriving = b.scratch(own);
    b.recv(tree.rank_of(tree.node + distance), arriving);
    const bool last = tree.is_root() && distance * 2 >= tree.size;
    const Slot next = last ? Builder::output(0) : b.scratch(own);
    if (last) {
      b.reduce_final(next, sum, arriving);
    } else {
      b.reduce(next, sum, arriving);
    }
    sum = next;
  }
  if (!tree.is_root()) b.send(tree.parent(), sum);
  if (spec.size == 1) b.copy(Builder::output(0), own);
  return std::move(b).finish();
}

topology::CostTerms cost_binomial_broadcast(int size, std::uint64_t bytes) {
  return {topology::doublings(size), topology::doublings(size) * static_cast<double>(bytes), 0};
}

topology::CostTerms cost_binomial_reduce(int size, std::uint64_t bytes) {
  const double moved = topology::doublings(size) * static_cast<double>(bytes);
  return {topology::doublings(size), moved, moved};
}

}  // namespace holdfast::comm
