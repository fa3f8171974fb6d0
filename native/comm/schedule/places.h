// Places: who shares a host with whom, and the sum of what one host's ranks have.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/schedule/builder.h"

namespace holdfast::comm {

// How many ranks there are, and on how many hosts.
struct Spread {
  int ranks = 1;
  int hosts = 1;
};

// `host_of`: by rank, as in BuildSpec; -1: nobody is there.
Spread spread_of(const std::vector<int>& host_of);

// Whether there are several hosts, and a rank on one of them that has company: what algorithms of
// two levels are for.
constexpr bool has_levels(const Spread& spread) {
  return spread.hosts > 1 && spread.hosts < spread.ranks;
}

// Ranks by host, both in rising order of rank.
struct Places {
  std::vector<std::vector<int>> ranks;
  std::size_t host = 0;   // this rank's
  std::size_t place = 0;  // among the ranks of its host

  explicit Places(const BuildSpec& spec);
  static std::size_t host_of(const BuildSpec& spec, int rank);
  const std::vector<int>& own() const { return ranks[host]; }
  std::size_t hosts() const { return ranks.size(); }
  std::size_t place_of(int rank, std::size_t on) const;
  // Who on host `on` does for a rank at `like` what it cannot do from its own.
  int counterpart(std::size_t on, std::size_t like) const {
    return ranks[on][like % ranks[on].size()];
  }
  std::size_t smallest() const;
};

// Adds what the others of `peers` send of the chunk, in the order of `peers`; `self` is in it. With
// `last` the sum is everybody's.
Slot fold(Builder& b, const std::vector<int>& peers, int self, int chunk, bool last);

}  // namespace holdfast::comm
