// Places: which ranks share a domain, and how one domain's ranks sum up their inputs.
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

// `host_of`: by rank, the number of its host; -1: no such rank.
Spread spread_of(const std::vector<int>& host_of);

// Whether hosts would be a wide level, for callers that have no fabric.
constexpr bool has_levels(const Spread& spread) {
  return topology::is_wide(spread.ranks, spread.hosts);
}

// Ranks by domain, both in rising order of rank. The domains are those of the fabric's innermost
// wide level, or of its innermost level if none is wide; without a fabric there is one.
struct Places {
  std::vector<std::vector<int>> ranks;
  std::size_t domain = 0;  // this rank's domain
  std::size_t place = 0;   // this rank's index among the ranks of its domain

  explicit Places(const BuildSpec& spec);
  const std::vector<int>& own() const { return ranks[domain]; }
  std::size_t domains() const { return ranks.size(); }
  std::size_t domain_of(int rank) const { return domain_of_[static_cast<std::size_t>(rank)]; }
  std::size_t place_of(int rank) const;
  // The rank in domain `in` that serves, inside that domain, a rank whose place in its own domain
  // is `like`.
  int counterpart(std::size_t in, std::size_t like) const {
    return ranks[in][like % ranks[in].size()];
  }
  std::size_t smallest() const;

 private:
  std::vector<std::size_t> domain_of_;  // by rank
};

// Sums the chunk over `peers`, which include `self`, in their order; the others send theirs. With
// `last` the sum is the final one, and goes to the output.
Slot fold(Builder& b, const std::vector<int>& peers, int self, int chunk, bool last);

}  // namespace holdfast::comm
