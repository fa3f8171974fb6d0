// Bruck: all-gather and all-to-all in ceil(log2 n) rounds for any number of ranks; for many ranks
// and small blocks.
// Source: Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications
// in multiport message-passing systems", IEEE TPDS 1997, sections 3 and 4.
//
// Per rank, n ranks, S bytes of payload:
//   all_gather  ceil(log2 n) rounds, (n-1)/n S sent; blocks may differ in size
//   all_to_all  ceil(log2 n) rounds, about S/2 log2 n sent, since blocks travel several hops; no
//               rank on the way knows block sizes other than its own, so all must be equal
// A round is one message per block, all of them in flight together. Copies beyond the wire's own:
// the rank's own block. Blocks need no rotation before or after, since slots are named, not placed.
// Why: docs/decisions/0015-bruck-only-on-request.md
#include <vector>

#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {}  // namespace

// After the round of distance d this rank has the blocks of the 2d ranks from itself on.
Schedule build_bruck_all_gather(const BuildSpec& spec) {
  const int n = spec.size;
  const int own = spec.rank.value;
  Builder b(spec, static_cast<std::uint32_t>(n));
  b.copy(Builder::output(own), Builder::input(own));
  for (int distance = 1; distance < n; distance *= 2) {
    const int to = (own - distance + n) % n;
    const int from = (own + distance) % n;
    for (int i = 0; i < distance && i + distance < n; ++i) {
      b.send(to, Builder::output((own + i) % n));
    }
    for (int i = distance; i < 2 * distance && i < n; ++i) {
      b.recv(from, Builder::output((own + i) % n));
    }
  }
  return std::move(b).finish();
}

// Place j of a rank holds a block that has j ranks to go in all; in the round of distance d the
// blocks whose j has bit d go d ranks on.
Schedule build_bruck_all_to_all(const BuildSpec& spec) {
  const int n = spec.size;
  const int own = spec.rank.value;
  Builder b(spec, static_cast<std::uint32_t>(n));
  b.copy(Builder::output(own), Builder::input(own));
  std::vector<Slot> held;
  held.reserve(static_cast<std::size_t>(n));
  for (int j = 0; j < n; ++j) held.push_back(Builder::input((own + j) % n));
  for (int distance = 1; distance < n; distance *= 2) {
    for (int j = 1; j < n; ++j) {
      if ((j & distance) != 0) b.send((own + distance) % n, held[static_cast<std::size_t>(j)]);
    }
    for (int j = 1; j < n; ++j) {
      if ((j & distance) == 0) continue;
      const bool arrived = j < 2 * distance;
      const Slot next =
          arrived ? Builder::output((own - j + n) % n) : b.scratch(Builder::input(own));
      b.recv((own - distance + n) % n, next);
      held[static_cast<std::size_t>(j)] = next;
    }
  }
  return std::move(b).finish();
}

topology::CostTerms cost_bruck_all_gather(int size, std::uint64_t bytes) {
  return {topology::doublings(size), (size - 1.0) / size * static_cast<double>(bytes), 0};
}

topology::CostTerms cost_bruck_all_to_all(int size, std::uint64_t bytes) {
  return {topology::doublings(size), topology::doublings(size) / 2 * static_cast<double>(bytes), 0};
}

}  // namespace holdfast::comm
