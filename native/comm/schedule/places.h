// Places: who shares a domain with whom, and the sum of what one domain's ranks have.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/schedule/builder.h"
#include "topology/fabric.h"

namespace holdfast::comm {

// How many ranks there are, and on how many hosts.
struct Spread {
  int ranks = 1;
  int hosts = 1;
};

// `host_of`: by rank, numbers of hosts; -1: nobody is there.
Spread spread_of(const std::vector<int>& host_of);

// Whether hosts would be a wide level, for those who have no fabric at hand.
constexpr bool has_levels(const Spread& spread) {
  return topology::is_wide(spread.ranks, spread.hosts);
}

// Ranks by domain, both in rising order of rank. The domains are those of the fabric's innermost
// wide level, or of its innermost level if none is wide; without a fabric there is one.
struct Places {
  std::vector<std::vector<int>> ranks;
  std::size_t domain = 0;  // this rank's
  std::size_t place = 0;   // among the ranks of its domain

  explicit Places(const BuildSpec& spec);
  const std::vector<int>& own() const { return ranks[domain]; }
  std::size_t domains() const { return ranks.size(); }
  std::size_t domain_of(int rank) const { return domain_of_[static_cast<std::size_t>(rank)]; }
  std::size_t place_of(int rank) const;
  // Who in domain `in` does for a rank at `like` what it cannot do from its own.
  int counterpart(std::size_t in, std::size_t like) const {
    return ranks[in][like % ranks[in].size()];
  }
  std::size_t smallest() const;

 private:
  std::vector<std::size_t> domain_of_;  // by rank
};

// Adds what the others of `peers` send of the chunk, in the order of `peers`; `self` is in it. With
// `last` the sum is everybody's.
Slot fold(Builder& b, const std::vector<int>& peers, int self, int chunk, bool last);

}  // namespace holdfast::comm
