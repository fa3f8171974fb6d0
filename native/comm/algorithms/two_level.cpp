// Two levels: works inside each domain first, then across domains, so that a byte crosses between
// two domains about once, however many ranks they have. The domains are those of the fabric's
// innermost wide level; these are hosts, if only the hosts of ranks are known.
// Source: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
// collective operation performance", IPDPS 2000, sections 3-4; the lanes of the all-reduce are
// those of Jia et al., "Highly scalable deep learning training system", 2018, section 3.3.
//
// H domains, L ranks in a domain (m in the smallest), S bytes of payload. Across, per domain:
//   all_reduce      2(H-1) messages a lane, m lanes, 2(H-1)/H S; inside: 2(L-1)/m S per rank
//   reduce_scatter  H-1 messages and (H-1)/H S/H per rank; inside: (L-1)/L S
//   all_gather      each block once to each other domain; inside: to each other rank
//   broadcast, reduce  log2 H messages of S, then (before) log2 L inside
// Domains may have different numbers of ranks, and ranks may be numbered in any order. Copies
// beyond the wire's own: none. Partial sums live in scratch; sums go by rank inside a domain, then
// by domain.
// Why: docs/decisions/0014-two-levels-are-placement.md, docs/decisions/0129-a-fabric-has-levels.md
#include <algorithm>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/places.h"

namespace holdfast::comm {
namespace {

// Runs a ring of one rank per domain over the chunks first .. first + H - 1, of which this rank
// holds its domain's sums.
void ring_across(Builder& b, const Places& places, int first, const std::vector<Slot>& held) {
  const auto domains = static_cast<int>(places.domains());
  const auto domain = static_cast<int>(places.domain);
  const int next = places.ranks[static_cast<std::size_t>((domain + 1) % domains)][places.place];
  const int before =
      places.ranks[static_cast<std::size_t>((domain + domains - 1) % domains)][places.place];
  const auto behind = [&](int distance) {
    return ((domain - distance) % domains + domains) % domains;
  };
  b.send(next, held[static_cast<std::size_t>(behind(1))]);
  for (int step = 2; step <= domains; ++step) {
    const Slot own = held[static_cast<std::size_t>(behind(step))];
    const int chunk = first + behind(step);
    const Slot arriving = b.scratch(Builder::input(chunk));
    b.recv(before, arriving);
    if (step == domains) {
      b.reduce_final(Builder::output(chunk), arriving, own);
    } else {
      const Slot partial = b.scratch(Builder::input(chunk));
      b.reduce(partial, arriving, own);
      b.send(next, partial);
    }
  }
  for (int step = 0; step + 1 < domains; ++step) {
    b.send(next, Builder::output(first + behind(step)));
    b.recv(before, Builder::output(first + behind(step + 1)));
  }
}

// Lane l is summed by the l-th rank of each domain: chunks l * H .. l * H + H - 1.
Schedule all_reduce(const BuildSpec& spec) {
  const Places places(spec);
  const auto domains = static_cast<int>(places.domains());
  const auto lanes = static_cast<int>(places.smallest());
  const auto place = static_cast<int>(places.place);
  Builder b(spec, static_cast<std::uint32_t>(domains * lanes));
  for (int c = 0; c < domains * lanes; ++c) {
    if (c / domains != place)
      b.send(places.own()[static_cast<std::size_t>(c / domains)], Builder::input(c));
  }
  if (place < lanes) {
    std::vector<Slot> held;
    held.reserve(places.domains());
    for (int j = 0; j < domains; ++j) {
      held.push_back(
          fold(b, places.own(), spec.rank.value, place * domains + j, places.domains() == 1));
    }
    if (domains > 1) ring_across(b, places, place * domains, held);
    if (spec.size == 1) b.copy(Builder::output(0), Builder::input(0));
  }
  for (int c = 0; c < domains * lanes; ++c) {
    const int owner = places.own()[static_cast<std::size_t>(c / domains)];
    if (owner != spec.rank.value) {
      b.recv(owner, Builder::output(c));
      continue;
    }
    for (const int peer : places.own()) {
      if (peer != owner) b.send(peer, Builder::output(c));
    }
  }
  return std::move(b).finish();
}

Schedule reduce_scatter(const BuildSpec& spec) {
  const Places places(spec);
  const int self = spec.rank.value;
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  if (spec.size == 1) b.copy(Builder::output(0), Builder::input(0));
  const auto counterpart = [&](int r) {
    return places.counterpart(places.domain, places.place_of(r));
  };
  for (int r = 0; r < spec.size; ++r) {
    if (counterpart(r) != self) b.send(counterpart(r), Builder::input(r));
  }
  Slot mine = Builder::input(self);
  for (int r = 0; r < spec.size; ++r) {
    if (counterpart(r) != self) continue;
    const Slot sum = fold(b, places.own(), self, r, r == self && places.domains() == 1);
    if (r == self) {
      mine = sum;
    } else if (places.domain_of(r) != places.domain) {
      b.send(r, sum);
    }
  }
  Slot sum = mine;
  std::size_t left = places.domains() - 1;
  for (std::size_t d = 0; d < places.domains(); ++d) {
    if (d == places.domain) continue;
    const Slot arriving = b.scratch(Builder::input(self));
    b.recv(places.counterpart(d, places.place), arriving);
    if (--left == 0) {
      b.reduce_final(Builder::output(self), sum, arriving);
    } else {
      const Slot next = b.scratch(Builder::input(self));
      b.reduce(next, sum, arriving);
      sum = next;
    }
  }
  return std::move(b).finish();
}

Schedule all_gather(const BuildSpec& spec) {
  const Places places(spec);
  const int self = spec.rank.value;
  Builder b(spec, static_cast<std::uint32_t>(spec.size));
  b.copy(Builder::output(self), Builder::input(self));
  for (std::size_t d = 0; d < places.domains(); ++d) {
    if (d != places.domain) b.send(places.counterpart(d, places.place), Builder::input(self));
  }
  for (const int peer : places.own()) {
    if (peer != self) b.send(peer, Builder::input(self));
  }
  for (const int peer : places.own()) {
    if (peer != self) b.recv(peer, Builder::output(peer));
  }
  for (int r = 0; r < spec.size; ++r) {
    if (places.domain_of(r) == places.domain) continue;
    const int first = places.counterpart(places.domain, places.place_of(r));
    b.recv(first == self ? r : first, Builder::output(r));
    for (const int peer : places.own()) {
      if (first == self && peer != self) b.send(peer, Builder::output(r));
    }
  }
  return std::move(b).finish();
}

// This rank's edges in a binomial tree over `members`, of which the first is the root.
struct Edges {
  int parent = -1;
  std::vector<int> children;  // the largest subtree first

  Edges(const std::vector<int>& members, int self) {
    const auto count = static_cast<int>(members.size());
    const auto node =
        static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
    if (node == count) return;  // this rank is not in the tree
    const int lowest = node & -node;
    if (node > 0) parent = members[static_cast<std::size_t>(node - lowest)];
    for (int distance = node == 0 ? 1 << 30 : lowest >> 1; distance > 0; distance >>= 1) {
      if (distance >= count - node) continue;
      const int child = node + distance;
      children.push_back(members[static_cast<std::size_t>(child)]);
    }
  }
};

// Two trees: one across domains, over the root and one rank of each other domain, and one inside
// this rank's domain.
struct RootedTrees {
  Edges across;
  Edges inside;

  static std::vector<int> heads(const BuildSpec& spec, const Places& places) {
    const std::size_t home = places.domain_of(spec.root.value);
    const std::size_t place = places.place_of(spec.root.value);
    std::vector<int> all;
    for (std::size_t i = 0; i < places.domains(); ++i) {
      all.push_back(places.counterpart((home + i) % places.domains(), place));
    }
    return all;
  }
  static std::vector<int> own_from(const std::vector<int>& heads, std::vector<int> own) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (std::find(heads.begin(), heads.end(), own[i]) == heads.end()) continue;
      std::rotate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(i), own.end());
      break;
    }
    return own;
  }
  RootedTrees(const BuildSpec& spec, const Places& places)
      : across(heads(spec, places), spec.rank.value),
        inside(own_from(heads(spec, places), places.own()), spec.rank.value) {}
};

Schedule broadcast(const BuildSpec& spec) {
  const Places places(spec);
  const RootedTrees trees(spec, places);
  Builder b(spec, 1);
  const bool root = spec.rank == spec.root;
  const Slot held = root ? Builder::input(0) : Builder::output(0);
  if (trees.across.parent >= 0) {
    b.recv(trees.across.parent, held);
  } else if (trees.inside.parent >= 0) {
    b.recv(trees.inside.parent, held);
  }
  for (const int child : trees.across.children) b.send(child, held);
  for (const int child : trees.inside.children) b.send(child, held);
  if (root) b.copy(Builder::output(0), held);
  return std::move(b).finish();
}

Schedule reduce(const BuildSpec& spec) {
  const Places places(spec);
  const RootedTrees trees(spec, places);
  Builder b(spec, 1);
  const Slot own = Builder::input(0);
  if (spec.size == 1) b.copy(Builder::output(0), own);
  std::vector<int> from(trees.inside.children.rbegin(), trees.inside.children.rend());
  from.insert(from.end(), trees.across.children.rbegin(), trees.across.children.rend());
  Slot sum = own;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Slot arriving = b.scratch(own);
    b.recv(from[i], arriving);
    if (spec.rank == spec.root && i + 1 == from.size()) {
      b.reduce_final(Builder::output(0), sum, arriving);
      return std::move(b).finish();
    }
    const Slot next = b.scratch(own);
    b.reduce(next, sum, arriving);
    sum = next;
  }
  const int parent = trees.across.parent >= 0 ? trees.across.parent : trees.inside.parent;
  if (parent >= 0) b.send(parent, sum);
  return std::move(b).finish();
}

}  // namespace

Schedule build_two_level(const BuildSpec& spec) {
  switch (spec.collective) {
    case Collective::kReduceScatter: return reduce_scatter(spec);
    case Collective::kAllGather: return all_gather(spec);
    case Collective::kBroadcast: return broadcast(spec);
    case Collective::kReduce: return reduce(spec);
    default: return all_reduce(spec);
  }
}

namespace {

// Blocks that the busiest rank of a domain takes from its peers there, or gives to them: each of
// the domain's ranks serves its share of the ranks of every domain, by their places.
double most_served(const topology::Fabric& fabric, int level) {
  double most = 0;
  for (int d = 0; d < fabric.domains(level); ++d) {
    const auto own = fabric.members(level, d).size();
    std::size_t served = 0;
    for (int e = 0; e < fabric.domains(level); ++e) {
      served += (fabric.members(level, e).size() + own - 1) / own;
    }
    most = std::max(most, static_cast<double>(served * (own - 1)));
  }
  return most;
}

}  // namespace

// The busiest rank of all decides inside, and the busiest domain across: all lanes of a domain
// share a way out. Messages to several domains are in flight together and count as one.
LevelCost cost_two_level_all_reduce(const topology::Fabric& fabric, int level,
                                    std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const int domains = fabric.domains(level);
  const int lanes = fabric.smallest(level);
  const double inside = (fabric.largest(level) - 1.0) / lanes * s;
  const double across = (domains - 1.0) / domains * s;
  return {{2, 2 * inside, inside}, {2.0 * (domains - 1), 2 * across, across / lanes}};
}

LevelCost cost_two_level_reduce_scatter(const topology::Fabric& fabric, int level,
                                        std::uint64_t bytes) {
  const double block = static_cast<double>(bytes) / fabric.size();
  const double inside = most_served(fabric, level) * block;
  const double across = (fabric.size() - fabric.smallest(level)) * block;
  return {{1, inside, inside}, {1, across, (fabric.domains(level) - 1) * block}};
}

LevelCost cost_two_level_all_gather(const topology::Fabric& fabric, int level,
                                    std::uint64_t bytes) {
  const double block = static_cast<double>(bytes) / fabric.size();
  const double across = (fabric.domains(level) - 1.0) * fabric.largest(level) * block;
  return {{1, most_served(fabric, level) * block, 0}, {1, across, 0}};
}

LevelCost cost_two_level_broadcast(const topology::Fabric& fabric, int level, std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const double inside = topology::doublings(fabric.largest(level));
  const double across = topology::doublings(fabric.domains(level));
  return {{inside, inside * s, 0}, {across, across * s, 0}};
}

LevelCost cost_two_level_reduce(const topology::Fabric& fabric, int level, std::uint64_t bytes) {
  LevelCost cost = cost_two_level_broadcast(fabric, level, bytes);
  cost.inside.reduced_bytes = cost.inside.wire_bytes;
  cost.across.reduced_bytes = cost.across.wire_bytes;
  return cost;
}

}  // namespace holdfast::comm
