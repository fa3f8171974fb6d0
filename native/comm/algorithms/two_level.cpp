// Two levels: inside each host first, then across hosts, so that a byte crosses between two hosts
// about once however many ranks they have.
// Source: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
// collective operation performance", IPDPS 2000, sections 3-4; the lanes of the all-reduce are
// those of Jia et al., "Highly scalable deep learning training system", 2018, section 3.3.
//
// H hosts, L ranks on a host (m on the smallest), S bytes of payload. Across, per host:
//   all_reduce      2(H-1) messages a lane, m lanes, 2(H-1)/H S; inside: 2(L-1)/L S per rank
//   reduce_scatter  H-1 messages and (H-1)/H S/H per rank; inside: (L-1)/L S
//   all_gather      each block once to each other host; inside: to each other rank
//   broadcast, reduce  log2 H messages of S, then (before) log2 L inside
// Hosts may differ in their ranks, and ranks may be numbered in any order. Copies beyond the wire's
// own: none. Partial sums live in scratch; sums go by rank inside a host, then by host.
// Why: docs/decisions/0014-two-levels-are-placement.md
#include <algorithm>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/places.h"

namespace holdfast::comm {
namespace {

// A ring of one rank per host over the chunks first .. first + H - 1, of which this rank holds its
// host's sums.
void ring_across(Builder& b, const Places& places, int first, const std::vector<Slot>& held) {
  const auto hosts = static_cast<int>(places.hosts());
  const auto host = static_cast<int>(places.host);
  const int next = places.ranks[static_cast<std::size_t>((host + 1) % hosts)][places.place];
  const int before =
      places.ranks[static_cast<std::size_t>((host + hosts - 1) % hosts)][places.place];
  const auto behind = [&](int distance) { return ((host - distance) % hosts + hosts) % hosts; };
  b.send(next, held[static_cast<std::size_t>(behind(1))]);
  for (int step = 2; step <= hosts; ++step) {
    const Slot own = held[static_cast<std::size_t>(behind(step))];
    const int chunk = first + behind(step);
    const Slot arriving = b.scratch(Builder::input(chunk));
    b.recv(before, arriving);
    if (step == hosts) {
      b.reduce_final(Builder::output(chunk), arriving, own);
    } else {
      const Slot partial = b.scratch(Builder::input(chunk));
      b.reduce(partial, arriving, own);
      b.send(next, partial);
    }
  }
  for (int step = 0; step + 1 < hosts; ++step) {
    b.send(next, Builder::output(first + behind(step)));
    b.recv(before, Builder::output(first + behind(step + 1)));
  }
}

// Lane l is summed by the l-th rank of each host: chunks l * H .. l * H + H - 1.
Schedule all_reduce(const BuildSpec& spec) {
  const Places places(spec);
  const auto hosts = static_cast<int>(places.hosts());
  const auto lanes = static_cast<int>(places.smallest());
  const auto place = static_cast<int>(places.place);
  Builder b(spec, static_cast<std::uint32_t>(hosts * lanes));
  for (int c = 0; c < hosts * lanes; ++c) {
    if (c / hosts != place)
      b.send(places.own()[static_cast<std::size_t>(c / hosts)], Builder::input(c));
  }
  if (place < lanes) {
    std::vector<Slot> held;
    held.reserve(places.hosts());
    for (int j = 0; j < hosts; ++j) {
      held.push_back(
          fold(b, places.own(), spec.rank.value, place * hosts + j, places.hosts() == 1));
    }
    if (hosts > 1) ring_across(b, places, place * hosts, held);
    if (spec.size == 1) b.copy(Builder::output(0), Builder::input(0));
  }
  for (int c = 0; c < hosts * lanes; ++c) {
    const int owner = places.own()[static_cast<std::size_t>(c / hosts)];
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
    const std::size_t home = Places::host_of(spec, r);
    return places.counterpart(places.host, places.place_of(r, home));
  };
  for (int r = 0; r < spec.size; ++r) {
    if (counterpart(r) != self) b.send(counterpart(r), Builder::input(r));
  }
  Slot mine = Builder::input(self);
  for (int r = 0; r < spec.size; ++r) {
    if (counterpart(r) != self) continue;
    const Slot sum = fold(b, places.own(), self, r, r == self && places.hosts() == 1);
    if (r == self) {
      mine = sum;
    } else if (Places::host_of(spec, r) != places.host) {
      b.send(r, sum);
    }
  }
  Slot sum = mine;
  std::size_t left = places.hosts() - 1;
  for (std::size_t h = 0; h < places.hosts(); ++h) {
    if (h == places.host) continue;
    const Slot arriving = b.scratch(Builder::input(self));
    b.recv(places.counterpart(h, places.place), arriving);
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
  for (std::size_t h = 0; h < places.hosts(); ++h) {
    if (h != places.host) b.send(places.counterpart(h, places.place), Builder::input(self));
  }
  for (const int peer : places.own()) {
    if (peer != self) b.send(peer, Builder::input(self));
  }
  for (const int peer : places.own()) {
    if (peer != self) b.recv(peer, Builder::output(peer));
  }
  for (int r = 0; r < spec.size; ++r) {
    const std::size_t home = Places::host_of(spec, r);
    if (home == places.host) continue;
    const int first = places.counterpart(places.host, places.place_of(r, home));
    b.recv(first == self ? r : first, Builder::output(r));
    for (const int peer : places.own()) {
      if (first == self && peer != self) b.send(peer, Builder::output(r));
    }
  }
  return std::move(b).finish();
}

// Edges of a binomial tree over `members`, whose first is the root.
struct Edges {
  int parent = -1;
  std::vector<int> children;  // the largest subtree first

  Edges(const std::vector<int>& members, int self) {
    const auto count = static_cast<int>(members.size());
    const auto node =
        static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
    if (node == count) return;  // not in it
    const int lowest = node & -node;
    if (node > 0) parent = members[static_cast<std::size_t>(node - lowest)];
    for (int distance = node == 0 ? 1 << 30 : lowest >> 1; distance > 0; distance >>= 1) {
      if (distance >= count - node) continue;
      const int child = node + distance;
      children.push_back(members[static_cast<std::size_t>(child)]);
    }
  }
};

// The tree across hosts, over the root and a rank for each other host, and the one inside.
struct RootedTrees {
  Edges across;
  Edges inside;

  static std::vector<int> heads(const BuildSpec& spec, const Places& places) {
    const std::size_t home = Places::host_of(spec, spec.root.value);
    const std::size_t place = places.place_of(spec.root.value, home);
    std::vector<int> all;
    for (std::size_t i = 0; i < places.hosts(); ++i) {
      all.push_back(places.counterpart((home + i) % places.hosts(), place));
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

// L = n / H, as if hosts were alike. All lanes of a host share its way out; messages to several
// hosts are in flight together and count as one.
LevelCost cost_two_level_all_reduce(int size, int hosts, std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const double local = std::max(1.0, static_cast<double>(size) / hosts);
  const double inside = (local - 1) / local * s;
  const double across = (hosts - 1.0) / hosts * s;
  return {{2, 2 * inside, inside}, {2.0 * (hosts - 1), 2 * across, across / local}};
}

LevelCost cost_two_level_reduce_scatter(int size, int hosts, std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const double local = std::max(1.0, static_cast<double>(size) / hosts);
  const double inside = (local - 1) / local * s;
  const double across = (hosts - 1.0) / hosts * s;
  return {{1, inside, inside}, {1, across, across / local}};
}

LevelCost cost_two_level_all_gather(int size, int hosts, std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const double local = std::max(1.0, static_cast<double>(size) / hosts);
  return {{1, (local - 1) / local * s, 0}, {1, (hosts - 1.0) / hosts * s, 0}};
}

LevelCost cost_two_level_broadcast(int size, int hosts, std::uint64_t bytes) {
  const auto s = static_cast<double>(bytes);
  const double inside = topology::doublings((size + hosts - 1) / hosts);
  const double across = topology::doublings(hosts);
  return {{inside, inside * s, 0}, {across, across * s, 0}};
}

LevelCost cost_two_level_reduce(int size, int hosts, std::uint64_t bytes) {
  LevelCost cost = cost_two_level_broadcast(size, hosts, bytes);
  cost.inside.reduced_bytes = cost.inside.wire_bytes;
  cost.across.reduced_bytes = cost.across.wire_bytes;
  return cost;
}

}  // namespace holdfast::comm
