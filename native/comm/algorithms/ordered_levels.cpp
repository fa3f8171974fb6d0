// Ordered levels: an all-reduce that folds in the order of ranks, and in which a byte crosses
// between domains about twice, however many ranks they have. The domains are those of
// two_level.cpp. The payload is cut into lanes; in each domain one rank gathers a lane from the
// domain's others. The sum goes through these ranks in the order of all ranks: whoever has it adds
// those of its domain's ranks that come next, and passes it on. The last of them has the result,
// and sends it to the other domains, where it goes to all. Sums stream: a rank passes the front on
// while the rest still arrives. With ranks numbered host by host the sum visits each domain once;
// numbered in turns it changes domain with every rank. Source: the
// lanes are those of Jia et al., "Highly scalable deep learning training system", 2018,
// section 3.3; the chain is that of chain.cpp.
//
// H domains, L ranks in a domain (m in the smallest), n ranks, S bytes of payload, R runs of
// neighbouring ranks in one domain: across, R-1 messages in a row and one more, S per domain each
// time it is visited and (H-1) S at the last; inside, 2(L-1)/m S per rank. Copies: arrivals of a
// fold wait in scratch.
// Why: docs/decisions/0137-one-order-for-all-ways.md
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/places.h"

namespace holdfast::comm {
namespace {

// One rank's part in the lane that it gathers.
class Lane {
 public:
  Lane(Builder& b, const BuildSpec& spec, const Places& places)
      : b_(b),
        places_(places),
        self_(spec.rank.value),
        size_(spec.size),
        chunk_(static_cast<int>(places.place)) {}

  // Adds this domain's ranks where it is their turn, and returns the rank that ends with the sum.
  int fold() {
    int holder = -1;
    Slot sum{};
    for (int r = 0; r < size_; ++r) {
      const int next = gatherer(places_.domain_of(r));
      if (holder >= 0 && next != holder) sum = pass(holder, next, sum);
      holder = next;
      if (holder == self_) sum = add(r, sum);
    }
    return holder;
  }

  // Brings the result from its holder to the other domains.
  void spread(int holder) {
    const Slot result = Builder::output(chunk_);
    if (holder != self_) return b_.recv(holder, result);
    for (std::size_t d = 0; d < places_.domains(); ++d) {
      if (gatherer(d) != self_) b_.send(gatherer(d), result);
    }
  }

 private:
  int gatherer(std::size_t domain) const { return places_.ranks[domain][places_.place]; }

  Slot pass(int from, int to, const Slot& sum) {
    if (from == self_) b_.send(to, sum);
    if (to != self_) return sum;
    const Slot arriving = b_.scratch(Builder::input(chunk_));
    b_.recv(from, arriving);
    return arriving;
  }

  Slot add(int rank, const Slot& sum) {
    const Slot own = Builder::input(chunk_);
    Slot operand = own;
    if (rank != self_) {
      operand = b_.scratch(own);
      b_.recv(rank, operand);
    }
    if (rank == 0) return operand;
    const bool last = rank + 1 == size_;
    const Slot next = last ? Builder::output(chunk_) : b_.scratch(own);
    last ? b_.reduce_final(next, sum, operand) : b_.reduce(next, sum, operand);
    return next;
  }

  Builder& b_;
  const Places& places_;
  const int self_;
  const int size_;
  const int chunk_;
};

}  // namespace

Schedule build_ordered_levels(const BuildSpec& spec) {
  const Places places(spec);
  const auto lanes = static_cast<int>(places.smallest());
  const int self = spec.rank.value;
  Builder b(spec, static_cast<std::uint32_t>(lanes));
  if (spec.size == 1) {
    b.copy(Builder::output(0), Builder::input(0));
    return std::move(b).finish();
  }
  const auto gatherer = [&](int lane) { return places.own()[static_cast<std::size_t>(lane)]; };
  for (int lane = 0; lane < lanes; ++lane) {
    if (gatherer(lane) != self) b.send(gatherer(lane), Builder::input(lane));
  }
  if (static_cast<int>(places.place) < lanes) {
    Lane own(b, spec, places);
    own.spread(own.fold());
  }
  for (int lane = 0; lane < lanes; ++lane) {
    if (gatherer(lane) != self) {
      b.recv(gatherer(lane), Builder::output(lane));
      continue;
    }
    for (const int peer : places.own()) {
      if (peer != self) b.send(peer, Builder::output(lane));
    }
  }
  return std::move(b).finish();
}

LevelCost cost_ordered_levels_all_reduce(const topology::Fabric& fabric, int level,
                                         std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const int domains = fabric.domains(level);
  const int lanes = fabric.smallest(level);
  const double inside = (fabric.largest(level) - 1.0) / lanes * s;
  double hops = 0;
  for (int r = 1; r < fabric.size(); ++r) {
    if (fabric.domain_of({r}, level) != fabric.domain_of({r - 1}, level)) ++hops;
  }
  const double passed = hops / domains * s;
  return {{2, 2 * inside, inside}, {hops + 1, passed + (domains - 1) * s, passed / lanes}};
}

}  // namespace holdfast::comm
