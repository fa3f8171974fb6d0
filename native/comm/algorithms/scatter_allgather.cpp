// Scatter and all-gather, a broadcast for long messages: the root sends every byte about once,
// where a tree's root sends all of them log2(n) times.
// Source: van de Geijn's broadcast as in Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4.2:
// binomial scatter, then a ring.
//
// n ranks, S bytes: ceil(log2 n) + n - 1 rounds; the root sends (n-1)/n S and then its part of the
// ring, the busiest rank at most 2(n-1)/n S in all. Copies beyond the wire's own: none. A rank that
// got a chunk in the scatter does not get it again in the ring.
#include <algorithm>

#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

// Nodes are ranks numbered from the root. A node scatters to its binomial subtree: the nodes from
// itself up to, and without, itself plus its lowest set bit.
struct TreePart {
  int size;
  int root;
  int node;

  explicit TreePart(const BuildSpec& spec)
      : size(spec.size),
        root(spec.root.value),
        node((spec.rank.value - spec.root.value + spec.size) % spec.size) {}
  int rank_of(int other) const { return (other % size + size + root) % size; }
  // One past the last chunk that `other` holds after the scatter; its first is its own.
  int end_of(int other) const {
    return other == 0 ? size : std::min(size, other + (other & -other));
  }
  // Whether `other` holds the chunk after the scatter.
  bool holds(int other, int chunk) const { return chunk >= other && chunk < end_of(other); }
};

void scatter(Builder& b, const TreePart& part) {
  const auto held = [&](int c) { return part.node == 0 ? Builder::input(c) : Builder::output(c); };
  if (part.node > 0) {
    const int parent = part.rank_of(part.node - (part.node & -part.node));
    for (int c = part.node; c < part.end_of(part.node); ++c) b.recv(parent, held(c));
  }
  int distance = 1;
  while (part.node + distance < part.end_of(part.node)) distance *= 2;
  for (distance /= 2; distance > 0; distance /= 2) {
    const int child = part.node + distance;
    if (child >= part.end_of(part.node)) continue;
    for (int c = child; c < part.end_of(child); ++c) b.send(part.rank_of(child), held(c));
  }
}

// Chunk c travels from node c up the ring; it is not sent to nodes that hold it already.
void all_gather(Builder& b, const TreePart& part) {
  const int next = (part.node + 1) % part.size;
  for (int step = 0; step + 1 < part.size; ++step) {
    const int out = (part.node - step + part.size) % part.size;
    const int in = (out - 1 + part.size) % part.size;
    const Slot held = part.node == 0 ? Builder::input(out) : Builder::output(out);
    if (!part.holds(next, out)) b.send(part.rank_of(next), held);
    if (!part.holds(part.node, in)) b.recv(part.rank_of(part.node - 1), Builder::output(in));
  }
}

}  // namespace

Schedule build_scatter_allgather_broadcast(const BuildSpec& spec) {
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  const TreePart part(spec);
  scatter(b, part);
  all_gather(b, part);
  for (int c = 0; part.node == 0 && c < spec.size; ++c) {
    b.copy(Builder::output(c), Builder::input(c));
  }
  return std::move(b).finish();
}

topology::CostTerms cost_scatter_allgather_broadcast(int size, std::uint64_t bytes) {
  const double moved = (size - 1.0) / size * static_cast<double>(bytes);
  return {topology::doublings(size) + size - 1, 2 * moved, 0};
}

}  // namespace holdfast::comm
