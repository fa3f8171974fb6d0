// Chain: what ranks 0 to r have makes its way from rank to rank, and each adds its own on the
// right: ((0 + 1) + 2) + ... . Large messages stream: a rank passes the front of the sum on while
// the rest still arrives. Scans are chains by nature; a reduction goes so where the order of ranks
// is asked for and the root should not have to take in every rank's input. Source: the pipelined
// linear array of Chan et al., "Collective communication: theory, practice, and experience", CCPE
// 2007, section 5; for scans Sanders, Traeff, "Parallel prefix (scan) algorithms for MPI",
// EuroPVM/MPI 2006, section 2.
//
// Per rank, n ranks, S bytes: one message in and one out, S sent, S reduced; n-1 hops until the
// last rank has its sum, and one more where that rank is not the root. Copies beyond the wire's
// own: none, but an exclusive scan's next sum is made beside the result.
#include "base/check.h"
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

// The chain's end has the sum: it is the root, or sends it there.
void reduce(Builder& b, const BuildSpec& spec) {
  const int last = spec.size - 1;
  const int own = spec.rank.value;
  const Slot input = Builder::input(0);
  if (own == 0) {
    b.send(1, input);
  } else {
    const Slot before = b.scratch(input);
    b.recv(own - 1, before);
    if (own < last) {
      const Slot sum = b.scratch(input);
      b.reduce(sum, before, input);
      b.send(own + 1, sum);
    } else {
      const bool is_root = spec.rank == spec.root;
      const Slot sum = is_root ? Builder::output(0) : b.scratch(input);
      b.reduce_final(sum, before, input);
      if (!is_root) b.send(spec.root.value, sum);
    }
  }
  if (spec.rank == spec.root && own != last) b.recv(last, Builder::output(0));
}

void inclusive_scan(Builder& b, const BuildSpec& spec) {
  const int own = spec.rank.value;
  const Slot input = Builder::input(0);
  const Slot output = Builder::output(0);
  if (own == 0) {
    b.send(1, input);
    return b.copy(output, input);
  }
  const Slot before = b.scratch(input);
  b.recv(own - 1, before);
  b.reduce(output, before, input);
  if (own + 1 < spec.size) b.send(own + 1, output);
}

// Rank 0 has no result.
void exclusive_scan(Builder& b, const BuildSpec& spec) {
  const int own = spec.rank.value;
  const Slot input = Builder::input(0);
  if (own == 0) return b.send(1, input);
  b.recv(own - 1, Builder::output(0));
  if (own + 1 == spec.size) return;
  const Slot sum = b.scratch(input);
  b.reduce(sum, Builder::output(0), input);
  b.send(own + 1, sum);
}

}  // namespace

Schedule build_chain(const BuildSpec& spec) {
  Builder b(spec, 1);
  if (spec.size == 1) {
    if (spec.collective != Collective::kExscan) b.copy(Builder::output(0), Builder::input(0));
    return std::move(b).finish();
  }
  switch (spec.collective) {
    case Collective::kReduce: reduce(b, spec); break;
    case Collective::kScan: inclusive_scan(b, spec); break;
    case Collective::kExscan: exclusive_scan(b, spec); break;
    default: CHECK(false);
  }
  return std::move(b).finish();
}

topology::CostTerms cost_chain_reduce(int size, std::uint64_t bytes) {
  return {static_cast<double>(size), static_cast<double>(bytes), static_cast<double>(bytes)};
}

topology::CostTerms cost_chain_scan(int size, std::uint64_t bytes) {
  return {size - 1.0, static_cast<double>(bytes), static_cast<double>(bytes)};
}

}  // namespace holdfast::comm
