#include "comm/schedule/places.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace holdfast::comm {

Spread spread_of(const std::vector<int>& host_of) {
  std::set<int> hosts;
  Spread spread{0, 0};
  for (const int host : host_of) {
    if (host < 0) continue;
    ++spread.ranks;
    hosts.insert(host);
  }
  spread.hosts = static_cast<int>(hosts.size());
  return spread;
}

Places::Places(const BuildSpec& spec) : domain_of_(static_cast<std::size_t>(spec.size), 0) {
  if (spec.fabric != nullptr) {
    const topology::Fabric& fabric = *spec.fabric;
    CHECK(fabric.size() == spec.size);
    const int level = fabric.wide_level().value_or(fabric.depth());
    for (int r = 0; r < spec.size; ++r) {
      domain_of_[static_cast<std::size_t>(r)] =
          static_cast<std::size_t>(fabric.domain_of({r}, level));
    }
  }
  for (int r = 0; r < spec.size; ++r) {
    const std::size_t d = domain_of(r);
    if (d >= ranks.size()) ranks.resize(d + 1);
    if (r == spec.rank.value) {
      domain = d;
      place = ranks[d].size();
    }
    ranks[d].push_back(r);
  }
}

std::size_t Places::place_of(int rank) const {
  const auto& all = ranks[domain_of(rank)];
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
}

std::size_t Places::smallest() const {
  std::size_t least = ranks[0].size();
  for (const auto& all : ranks) least = std::min(least, all.size());
  return least;
}

Slot fold(Builder& b, const std::vector<int>& peers, int self, int chunk, bool last) {
  const Slot own = Builder::input(chunk);
  Slot sum = own;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    Slot operand = own;
    if (peers[i] != self) {
      operand = b.scratch(own);
      b.recv(peers[i], operand);
    }
    if (i == 0) {
      sum = operand;
    } else if (last && i + 1 == peers.size()) {
      b.reduce_final(Builder::output(chunk), sum, operand);
      sum = Builder::output(chunk);
    } else {
      const Slot next = b.scratch(own);
      b.reduce(next, sum, operand);
      sum = next;
    }
  }
  return sum;
}

}  // namespace holdfast::comm
