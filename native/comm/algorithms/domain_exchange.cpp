// Domain exchange: for what is so small that latency decides. Sums come to one rank of each domain,
// these ranks exchange them, and each sends the result to its domain: an all-reduce crosses the
// longest ways once, in both directions at once, where a tree goes up and then down. The domains
// are those of the map's latencies, to any depth; without a map, of the fabric. Source: Karonis et
// al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
// performance", IPDPS 2000, sections 3-4.
//
// The payload may be cut into lanes, each with heads of its own (domain_lanes.cpp).
//
// Critical path: for each level but the outermost one message in and one out, and one across. H
// domains, S bytes: H-1 messages of S across for each domain's first rank. Broadcast and reduce go
// down, or up, by the same heads, and cross directly from the root or to it. Reduce_scatter and
// all_gather are those of two levels, in these domains.
// Copies beyond the wire's own: none but a broadcast's root's. Sums go by domain, in one order on
// all ranks.
#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"
#include "topology/forest/domains.h"
#include "topology/link_map.h"

namespace holdfast::comm {
namespace {

// Who serves whom in a lane: each domain has a head, the root of the call or one that the lane's
// number chooses; of lane 0 the lowest rank.
class Heads {
 public:
  Heads(const topology::Fabric& fabric, int self, int root, int lane)
      : fabric_(fabric), self_(self), root_(root), lane_(lane), top_(fabric.common_level() + 1) {}

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
    return has_root ? root_ : chosen(level, domain, lane_on(level));
  }
  // The lane's number chooses among the domains inside one after the other, and what it is beyond
  // the most that there are anywhere on a level chooses further in: so all ranks get their share,
  // and the head of a domain is that of one inside it.
  int chosen(int level, int domain, int lane) const {
    const auto members = fabric_.members(level, domain);
    if (level == fabric_.depth()) {
      // As many pairs as there are have lanes, each with its own connection, before one has two.
      const auto size = static_cast<int>(members.size());
      const auto first = static_cast<int>(fabric_.members(level, 0).size());
      const int at = (lane + lane / std::lcm(first, size) * domain) % size;
      return members[static_cast<std::size_t>(at)].value;
    }
    const std::vector<int> inside = domains_inside(level, domain);
    const auto at = static_cast<std::size_t>(lane) % inside.size();
    return head(level + 1, inside[at]);
  }
  std::vector<int> domains_inside(int level, int domain) const {
    std::vector<int> inside;
    for (const Rank rank : fabric_.members(level, domain)) {
      const int d = fabric_.domain_of(rank, level + 1);
      if (std::find(inside.begin(), inside.end(), d) == inside.end()) inside.push_back(d);
    }
    return inside;
  }
  // The lane's number as it chooses on a level.
  int lane_on(int level) const {
    int lane = lane_;
    for (int k = top_; k < level; ++k) {
      std::size_t most = 1;
      for (int d = 0; d < fabric_.domains(k); ++d) {
        most = std::max(most, domains_inside(k, d).size());
      }
      lane /= static_cast<int>(most);
    }
    return lane;
  }
  bool leads(int rank, int level) const {
    return head(level, fabric_.domain_of({rank}, level)) == rank;
  }

  const topology::Fabric& fabric_;
  int self_;
  int root_;
  int lane_;
  int top_;
};

// One lane of a call: its chunk, and who serves whom.
class ExchangeLane {
 public:
  ExchangeLane(Builder& b, const BuildSpec& spec, const topology::Fabric& fabric, int lane)
      : b_(b),
        self_(spec.rank.value),
        root_(is_rooted(spec.collective) ? spec.root.value : -1),
        heads_(fabric, self_, root_, lane),
        input_(Builder::input(lane)),
        output_(Builder::output(lane)) {}

  void all_reduce() {
    const Slot sum = add_from(heads_.below(), input_, false);
    if (heads_.above() >= 0) {
      b_.send(heads_.above(), sum);
      b_.recv(heads_.above(), output_);
    } else {
      exchange_sums(sum);
    }
    send_down(output_);
  }

  void broadcast() {
    const bool is_root = self_ == root_;
    const Slot held = is_root ? input_ : output_;
    if (!is_root) b_.recv(heads_.above() >= 0 ? heads_.above() : root_, held);
    if (is_root) {
      for (const int rank : other_heads()) b_.send(rank, held);
    }
    send_down(held);
    if (is_root) b_.copy(output_, held);
  }

  void reduce() {
    std::vector<int> from = heads_.below();
    const bool is_root = self_ == root_;
    if (is_root) {
      for (const int rank : other_heads()) from.push_back(rank);
    }
    const Slot sum = add_from(from, input_, is_root);
    if (!is_root) b_.send(heads_.above() >= 0 ? heads_.above() : root_, sum);
  }

 private:
  // Adds up what these ranks send to `sum`; with `last` the last of these sums is the result.
  Slot add_from(const std::vector<int>& ranks, Slot sum, bool last) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const Slot arriving = b_.scratch(input_);
      b_.recv(ranks[i], arriving);
      sum = add(sum, arriving, last && i + 1 == ranks.size());
    }
    return sum;
  }

  Slot add(const Slot& sum, const Slot& operand, bool last) {
    if (last) {
      b_.reduce_final(output_, sum, operand);
      return output_;
    }
    const Slot next = b_.scratch(input_);
    b_.reduce(next, sum, operand);
    return next;
  }

  // Each of the outermost heads sends its sum to all the others, and adds all of them up.
  void exchange_sums(const Slot& own) {
    const std::vector<int> heads = heads_.outermost();
    for (const int peer : heads) {
      if (peer != self_) b_.send(peer, own);
    }
    Slot sum = own;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      Slot operand = own;
      if (heads[i] != self_) {
        operand = b_.scratch(input_);
        b_.recv(heads[i], operand);
      }
      sum = i == 0 ? operand : add(sum, operand, i + 1 == heads.size());
    }
  }

  void send_down(const Slot& held) {
    const std::vector<int> below = heads_.below();
    for (auto rank = below.rbegin(); rank != below.rend(); ++rank) b_.send(*rank, held);
  }

  // Whom the root sends to, or hears from, beyond its own domain.
  std::vector<int> other_heads() const {
    std::vector<int> others = heads_.outermost();
    std::erase(others, self_);
    return others;
  }

  Builder& b_;
  const int self_;
  const int root_;  // -1: the call has none
  const Heads heads_;
  const Slot input_;
  const Slot output_;
};

topology::Fabric domains_for(const BuildSpec& spec) {
  const topology::LinkMap* map = spec.fabric != nullptr ? spec.fabric->map() : nullptr;
  if (map != nullptr) return topology::domains_of(*map);
  if (spec.fabric != nullptr) return *spec.fabric;
  return topology::Fabric::evenly(spec.size, 1, topology::kTcpLink).value();
}

int lanes_of(const topology::Fabric& fabric, int most) {
  const int top = fabric.common_level() + 1;
  return top > fabric.depth() ? 1 : std::min(most, 2 * fabric.largest(top));
}

}  // namespace

Schedule build_in_lanes(const BuildSpec& spec, int most_lanes) {
  const topology::Fabric fabric = domains_for(spec);
  const int lanes = spec.size == 1 ? 1 : lanes_of(fabric, most_lanes);
  Builder b(spec, static_cast<std::uint32_t>(lanes));
  if (spec.size == 1) {
    b.copy(Builder::output(0), Builder::input(0));
    return std::move(b).finish();
  }
  for (int l = 0; l < lanes; ++l) {
    ExchangeLane lane(b, spec, fabric, l);
    switch (spec.collective) {
      case Collective::kAllReduce: lane.all_reduce(); break;
      case Collective::kBroadcast: lane.broadcast(); break;
      default: lane.reduce(); break;
    }
  }
  return std::move(b).finish();
}

Schedule build_domain_exchange(const BuildSpec& spec) {
  if (!has_blocks_by_rank(spec.collective)) return build_in_lanes(spec, 1);
  CHECK(spec.collective == Collective::kReduceScatter || spec.collective == Collective::kAllGather);
  const topology::Fabric fabric = domains_for(spec);
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
