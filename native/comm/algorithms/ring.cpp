// Ring: each rank talks to its two neighbours only; bandwidth-optimal, latency linear in the ranks.
// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
// JPDC 2009, section 3; the ring itself goes back to Chan et al., "Collective communication:
// theory, practice, and experience", CCPE 2007, section 5.
//
// Per rank, n ranks, S bytes of all-reduce payload:
//   all_reduce      2(n-1) messages, 2(n-1)/n S sent, (n-1)/n S reduced
//   reduce_scatter   (n-1) messages,  (n-1)/n S sent, (n-1)/n S reduced
//   all_gather       (n-1) messages,  (n-1)/n S sent
// Copies beyond the wire's own: none. Partial sums stream through scratch on their way to the next
// rank; the caller's output is written once, with final values.
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

struct Ring {
  int size;
  int rank;
  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }
  // The chunk that is `distance` places behind this rank.
  int behind(int distance) const { return ((rank - distance) % size + size) % size; }
};

// Chunk c starts at rank c+1, collects a contribution at every rank and ends, complete, at rank c.
// `result`: where this rank's own finished chunk goes.
void reduce_phase(Builder& b, const Ring& ring) {
  b.send(ring.next(), Builder::input(ring.behind(1)));
  for (int step = 2; step <= ring.size; ++step) {
    const int chunk = ring.behind(step);
    const Slot own = Builder::input(chunk);
    const Slot arriving = b.scratch(own);
    b.recv(ring.previous(), arriving);
    if (step == ring.size) {
      b.reduce_final(Builder::output(chunk), arriving, own);
    } else {
      const Slot partial = b.scratch(own);
      b.reduce(partial, arriving, own);
      b.send(ring.next(), partial);
    }
  }
}

// Every rank starts with its own output chunk and passes on what it gets.
void gather_phase(Builder& b, const Ring& ring) {
  for (int step = 0; step + 1 < ring.size; ++step) {
    b.send(ring.next(), Builder::output(ring.behind(step)));
    b.recv(ring.previous(), Builder::output(ring.behind(step + 1)));
  }
}

}  // namespace

Schedule build_ring_all_reduce(const BuildSpec& spec) {
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  const Ring ring{spec.size, spec.rank.value};
  if (spec.size == 1) {
    b.copy(Builder::output(0), Builder::input(0));
  } else {
    reduce_phase(b, ring);
    gather_phase(b, ring);
  }
  return std::move(b).finish();
}

Schedule build_ring_reduce_scatter(const BuildSpec& spec) {
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  if (spec.size == 1) {
    b.copy(Builder::output(0), Builder::input(0));
  } else {
    reduce_phase(b, {spec.size, spec.rank.value});
  }
  return std::move(b).finish();
}

Schedule build_ring_all_gather(const BuildSpec& spec) {
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  const int own = spec.rank.value;
  b.copy(Builder::output(own), Builder::input(own));
  gather_phase(b, {spec.size, own});
  return std::move(b).finish();
}

topology::CostTerms cost_ring_all_reduce(int size, std::uint64_t bytes) {
  const double hops = size - 1;
  const double moved = hops / size * static_cast<double>(bytes);
  return {2 * hops, 2 * moved, moved};
}

topology::CostTerms cost_ring_reduce_scatter(int size, std::uint64_t bytes) {
  const double hops = size - 1;
  const double moved = hops / size * static_cast<double>(bytes);
  return {hops, moved, moved};
}

topology::CostTerms cost_ring_all_gather(int size, std::uint64_t bytes) {
  const double hops = size - 1;
  return {hops, hops / size * static_cast<double>(bytes), 0};
}

}  // namespace holdfast::comm
