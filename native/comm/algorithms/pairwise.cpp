// Pairwise all-to-all(v): in round i every rank sends to the rank i ahead and receives from the
// rank i behind, so that each link carries one message per round. Blocks may differ in size and may
// be empty. Source: Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4.4 (long messages, any
// number of ranks).
//
// Per rank: n-1 messages each way, every byte once. Copies beyond the wire's own: the rank's own
// block.
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {

Schedule build_pairwise_all_to_all(const BuildSpec& spec) {
  const int n = spec.size;
  const int own = spec.rank.value;
  Builder b(spec, static_cast<std::uint32_t>(n));
  b.copy(Builder::output(own), Builder::input(own));
  for (int round = 1; round < n; ++round) {
    const int ahead = (own + round) % n;
    const int behind = (own - round + n) % n;
    b.send(ahead, Builder::input(ahead));
    b.recv(behind, Builder::output(behind));
  }
  return std::move(b).finish();
}

topology::CostTerms cost_pairwise_all_to_all(int size, std::uint64_t bytes) {
  return {size - 1.0, (size - 1.0) / size * static_cast<double>(bytes), 0};
}

}  // namespace holdfast::comm
