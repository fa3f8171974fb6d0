// Direct fold: every rank gets all ranks' parts of one chunk, folds them in the order of ranks, and
// sends the result to all others: a reduce-scatter and an all-gather of one hop each. It costs more
// messages than a ring or a tree, and every element is ((0 + 1) + 2) + ..., as on the ways through
// shared memory and in a repair, so it is for calls that ask for that order. A reduce-scatter is
// the first half: as `flat`, but without that one's limit. Source: the one-hop exchange of Chan et
// al., "Collective communication: theory, practice, and experience", CCPE 2007, section 4.
//
// Per rank, n ranks, S bytes: 2 (n-1) messages, 2 (n-1)/n S sent, (n-1)/n S reduced. Copies:
// arrivals of a fold wait in scratch unless they are the last operand, at most (n-2)/n S.
// Why: docs/decisions/0137-one-order-for-all-ways.md
#include <numeric>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/places.h"

namespace holdfast::comm {

Schedule build_direct_fold(const BuildSpec& spec) {
  const int n = spec.size;
  const int own = spec.rank.value;
  const bool gathers = spec.collective == Collective::kAllReduce;
  Builder b(spec, static_cast<std::uint32_t>(n));
  if (n == 1) {
    b.copy(Builder::output(0), Builder::input(0));
    return std::move(b).finish();
  }
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  // Each rank starts with the rank after it, which spreads the load.
  for (int i = 1; i < n; ++i) b.send((own + i) % n, Builder::input((own + i) % n));
  fold(b, all, own, own, true);
  for (int i = 1; gathers && i < n; ++i) b.send((own + i) % n, Builder::output(own));
  for (int i = 1; gathers && i < n; ++i) b.recv((own + i) % n, Builder::output((own + i) % n));
  return std::move(b).finish();
}

topology::CostTerms cost_direct_fold_all_reduce(int size, std::uint64_t bytes) {
  const double part = (size - 1.0) / size * static_cast<double>(bytes);
  return {static_cast<double>(size), 2 * part, part};
}

topology::CostTerms cost_direct_fold_reduce_scatter(int size, std::uint64_t bytes) {
  const double part = (size - 1.0) / size * static_cast<double>(bytes);
  return {size / 2.0, part, part};
}

}  // namespace holdfast::comm
