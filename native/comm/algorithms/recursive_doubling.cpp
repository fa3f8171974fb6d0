// Recursive doubling: all-reduce in log2(n) rounds, in each of which pairs exchange all they have
// summed. No algorithm gives all ranks the sum with fewer messages in a row, and of those with as
// few this one has the fewest in all. It is for small payloads.
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
// MPICH", IJHPCA 2005, section 4.5 (its first algorithm).
//
// p = the largest power of two <= n ranks take part; in each of the first n - p pairs of ranks the
// odd rank sends its input to the even one and gets the result from it. Per rank, S bytes of
// payload: log2 p rounds of S sent and reduced; folding adds two more messages and an addition.
// Partial sums live in scratch. Copies beyond the wire's own: none.
// Why: docs/decisions/0076-small-sums-by-recursive-doubling.md
#include "comm/algorithms/algorithms.h"
#include "comm/algorithms/fold.h"

namespace holdfast::comm {
namespace {

// Adds what `peer` sends, as the first operand if it is the sum of lower ranks.
void add(Builder& b, int peer, Slot& held, bool arriving_first, bool final) {
  const Slot arriving = b.scratch(Builder::input(0));
  b.recv(peer, arriving);
  const Slot lhs = arriving_first ? arriving : held;
  const Slot rhs = arriving_first ? held : arriving;
  held = final ? Builder::output(0) : b.scratch(Builder::input(0));
  final ? b.reduce_final(held, lhs, rhs) : b.reduce(held, lhs, rhs);
}

}  // namespace

Schedule build_recursive_doubling_all_reduce(const BuildSpec& spec) {
  const Fold fold(spec);
  Builder b(spec, 1);
  Slot held = Builder::input(0);
  if (spec.size == 1) b.copy(Builder::output(0), held);
  if (fold.part < 0) {
    b.send(fold.rank - 1, held);
    b.recv(fold.rank - 1, Builder::output(0));
    return std::move(b).finish();
  }
  if (fold.has_folded()) add(b, fold.rank + 1, held, false, false);
  for (int distance = 1; distance < fold.parts; distance *= 2) {
    const int peer = fold.rank_of(fold.part ^ distance);
    b.send(peer, held);
    add(b, peer, held, (fold.part & distance) != 0, distance * 2 == fold.parts);
  }
  if (fold.has_folded()) b.send(fold.rank + 1, Builder::output(0));
  return std::move(b).finish();
}

topology::CostTerms cost_recursive_doubling_all_reduce(int size, std::uint64_t bytes) {
  const double extra = Fold::folds(size) ? 1 : 0;
  const auto s = static_cast<double>(bytes);
  const double rounds = Fold::rounds(size);
  return {rounds + 2 * extra, (rounds + extra) * s, (rounds + extra) * s};
}

}  // namespace holdfast::comm
