// Domain exchange: for what is so small that latency decides. Sums come to one rank of each domain,
// these ranks exchange them, and each sends the result to its domain: an all-reduce crosses the
// longest ways once, in both directions at once, where a tree goes up and then down. The domains
// are those of the map's latencies, to any depth; without a map, of the fabric. Source: Karonis et
// al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
// performance", IPDPS 2000, sections 3-4.
//
// Critical path: for each level but the outermost one message in and one out, and one across. H
// domains, S bytes: H-1 messages of S across for each domain's first rank. Broadcast and reduce go
// down, or up, by the same heads, and cross directly from the root or to it. Reduce_scatter and
// all_gather are those of two levels, in these domains.
// Copies beyond the wire's own: none but a broadcast's root's. Sums go by domain, in one order on
// all ranks.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"
#include "topology/forest/domains.h"
#include "topology/link_map.h"

namespace holdfast::comm {
namespace {

// Who serves whom: each domain has a head, its lowest rank or the root of the call.
class Heads {
 public:
  Heads(const topology::Fabric& fabric, int self, int root)
      : fabric_(fabric), self_(self), root_(root), top_(fabric.common_level() + 1) {}

  // The heads of the outermost domains; all ranks, where there is one domain only.
  std::vector<int> outermost() const {
    std::vector<int> heads;
    if (top_ > fabric_.depth()) {
      for (int r = 0; r < fabric_.size(); ++r) heads.push_back(r);
      return heads;
    }
    for (int d = 0; d < fabric_.domains(top_); ++d) heads.push_back(head(top_, d));
    return heads;
  }
  // The ranks that send this one the sums of their domains, the innermost first.
  std::vector<int> below() const {
    std::vector<int> ranks;
    for (int k = fabric_.depth(); k >= top_ && leads(self_, k); --k) {
      for (const Rank rank : fabric_.members(k, fabric_.domain_of({self_}, k))) {
        const bool is_child = k == fabric_.depth() || leads(rank.value, k + 1);
        if (is_child && rank.value != self_) ranks.push_back(rank.value);
      }
    }
    return ranks;
  }
  // The head that this rank sends to; -1: it is one of the outermost.
  int above() const {
    for (int k = fabric_.depth(); k >= top_; --k) {
      const int lead = head(k, fabric_.domain_of({self_}, k));
      if (lead != self_) return lead;
    }
    return -1;
  }

 private:
  int head(int level, int domain) const {
    const auto members = fabric_.members(level, domain);
    const bool has_root = std::find(members.begin(), members.end(), Rank{root_}) != members.end();
    return has_root ? root_ : members[0].value;
  }
  bool leads(int rank, int level) const {
    return head(level, fabric_.domain_of({rank}, level)) == rank;
  }

  const topology::Fabric& fabric_;
  int self_;
  int root_;
  int top_;
};

// Adds up what these ranks send to `sum`; with `last` the last of these sums is the result.
Slot add_from(Builder& b, const std::vector<int>& ranks, Slot sum, bool last) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Slot arriving = b.scratch(Builder::input(0));
    b.recv(ranks[i], arriving);
    if (last && i + 1 == ranks.size()) {
      b.reduce_final(Builder::output(0), sum, arriving);
      return Builder::output(0);
    }
    const Slot next = b.scratch(Builder::input(0));
    b.reduce(next, sum, arriving);
    sum = next;
  }
  return sum;
}

// Each of the outermost heads sends its sum to all the others, and adds all of them up.
void exchange_sums(Builder& b, const std::vector<int>& heads, int self, Slot own) {
  for (const int peer : heads) {
    if (peer != self) b.send(peer, own);
  }
  Slot sum = own;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    Slot operand = own;
    if (heads[i] != self) {
      operand = b.scratch(Builder::input(0));
      b.recv(heads[i], operand);
    }
    if (i == 0) {
      sum = operand;
    } else if (i + 1 == heads.size()) {
      b.reduce_final(Builder::output(0), sum, operand);
    } else {
      const Slot next = b.scratch(Builder::input(0));
      b.reduce(next, sum, operand);
      sum = next;
    }
  }
}

Schedule exchange_all(const BuildSpec& spec, const topology::Fabric& fabric) {
  const Heads heads(fabric, spec.rank.value, -1);
  Builder b(spec, 1);
  const Slot sum = add_from(b, heads.below(), Builder::input(0), false);
  if (heads.above() >= 0) {
    b.send(heads.above(), sum);
    b.recv(heads.above(), Builder::output(0));
  } else {
    exchange_sums(b, heads.outermost(), spec.rank.value, sum);
  }
  const std::vector<int> below = heads.below();
  for (auto rank = below.rbegin(); rank != below.rend(); ++rank) {
    b.send(*rank, Builder::output(0));
  }
  return std::move(b).finish();
}

// Whom the root sends to, or hears from, beyond its own domain.
std::vector<int> other_heads(const Heads& heads, int self) {
  std::vector<int> others = heads.outermost();
  std::erase(others, self);
  return others;
}

Schedule send_to_all(const BuildSpec& spec, const topology::Fabric& fabric) {
  const Heads heads(fabric, spec.rank.value, spec.root.value);
  Builder b(spec, 1);
  const bool is_root = spec.rank == spec.root;
  const Slot held = is_root ? Builder::input(0) : Builder::output(0);
  if (!is_root) b.recv(heads.above() >= 0 ? heads.above() : spec.root.value, held);
  if (is_root) {
    for (const int rank : other_heads(heads, spec.rank.value)) b.send(rank, held);
  }
  const std::vector<int> below = heads.below();
  for (auto rank = below.rbegin(); rank != below.rend(); ++rank) b.send(*rank, held);
  if (is_root) b.copy(Builder::output(0), held);
  return std::move(b).finish();
}

Schedule sum_at_root(const BuildSpec& spec, const topology::Fabric& fabric) {
  const Heads heads(fabric, spec.rank.value, spec.root.value);
  Builder b(spec, 1);
  std::vector<int> from = heads.below();
  const bool is_root = spec.rank == spec.root;
  if (is_root) {
    for (const int rank : other_heads(heads, spec.rank.value)) from.push_back(rank);
  }
  const Slot sum = add_from(b, from, Builder::input(0), is_root);
  if (!is_root) b.send(heads.above() >= 0 ? heads.above() : spec.root.value, sum);
  return std::move(b).finish();
}

}  // namespace

Schedule build_domain_exchange(const BuildSpec& spec) {
  if (spec.size == 1) {
    Builder b(spec, 1);
    b.copy(Builder::output(0), Builder::input(0));
    return std::move(b).finish();
  }
  const topology::LinkMap* map = spec.fabric != nullptr ? spec.fabric->map() : nullptr;
  topology::Fabric fabric;
  if (map != nullptr) {
    fabric = topology::domains_of(*map);
  } else if (spec.fabric != nullptr) {
    fabric = *spec.fabric;
  } else {
    fabric = topology::Fabric::evenly(spec.size, 1, topology::kTcpLink).value();
  }
  switch (spec.collective) {
    case Collective::kAllReduce: return exchange_all(spec, fabric);
    case Collective::kBroadcast: return send_to_all(spec, fabric);
    case Collective::kReduce: return sum_at_root(spec, fabric);
    default: break;
  }
  CHECK(spec.collective == Collective::kReduceScatter || spec.collective == Collective::kAllGather);
  BuildSpec inner = spec;
  inner.fabric = &fabric;
  return build_two_level(inner);
}

topology::CostTerms cost_domain_exchange(int size, std::uint64_t bytes) {
  const double all = (size - 1.0) * static_cast<double>(bytes);
  return {size - 1.0, all, all};
}

topology::CostTerms cost_domain_exchange_blocks(int size, std::uint64_t bytes) {
  const double others = (size - 1.0) / size * static_cast<double>(bytes);
  return {size - 1.0, others, others};
}

topology::CostTerms cost_domain_exchange_gather(int size, std::uint64_t bytes) {
  return {size - 1.0, (size - 1.0) / size * static_cast<double>(bytes), 0};
}

topology::CostTerms cost_domain_exchange_moves(int size, std::uint64_t bytes) {
  return {size - 1.0, (size - 1.0) * static_cast<double>(bytes), 0};
}

}  // namespace holdfast::comm
