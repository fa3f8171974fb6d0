// Dissemination barrier: in round k every rank signals the rank 2^k ahead and waits for the one 2^k
// behind; after ceil(log2 n) rounds every rank has heard, directly or not, from every other. It
// works for any number of ranks and has no root. Source: Hensgen, Finkel, Manber, "Two algorithms
// for barrier synchronization", IJPP 1988, section 3.
//
// Per rank: ceil(log2 n) empty messages. The token is a chunk of no bytes: to the verifier it holds
// the ranks that were heard from.
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {

Schedule build_dissemination_barrier(const BuildSpec& spec) {
  const int n = spec.size;
  const int own = spec.rank.value;
  Builder b(spec, 1);
  Slot heard = Builder::input(0);
  for (int distance = 1; distance < n; distance *= 2) {
    const Slot arriving = b.scratch(Builder::input(0));
    const Slot both = b.scratch(Builder::input(0));
    b.send((own + distance) % n, heard);
    b.recv((own - distance + n) % n, arriving);
    b.reduce(both, heard, arriving);
    heard = both;
  }
  b.copy(Builder::output(0), heard);
  return std::move(b).finish();
}

topology::CostTerms cost_dissemination_barrier(int size, std::uint64_t) {
  double rounds = 0;
  for (int distance = 1; distance < size; distance *= 2) ++rounds;
  return {rounds, 0, 0};
}

}  // namespace holdfast::comm
