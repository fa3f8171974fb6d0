// Host numbers: which members of a world are on which host, and whether they may share memory, by
// their cards. Pure, except for how cards are read: all members see the same cards and find the
// same.
#pragma once

#include <string>
#include <vector>

#include "ft/message.h"

namespace holdfast::group {

class Network;

// What the cards of a view say, read once: a world makes many groups in a view.
class CardWords {
 public:
  struct Words {
    std::string host;    // as Network::host_of()
    std::string domain;  // as Network::domain_of()
    std::string memory;  // as Network::memory_of()
  };
  // By rank of the view.
  const std::vector<Words>& of(const ft::WorldView& view, const Network& network);

 private:
  ft::CardList cards_;  // of which the words are
  std::vector<Words> words_;
};

std::vector<int> number_hosts(const std::vector<CardWords::Words>& words,
                              const std::vector<Rank>& ranks);
// By rank, the domains that it is in, from the outside in, its host last: numbers that tell domains
// of one level apart, as many for each. Of the ranks of a host the lowest one's card counts.
std::vector<std::vector<int>> number_domains(const std::vector<CardWords::Words>& words,
                                             const std::vector<Rank>& ranks);
bool may_share(const ft::WorldView& view, const std::vector<CardWords::Words>& words,
               const std::vector<Rank>& ranks);

// The hosts of these ranks of the view, numbered in order of appearance; vacant ranks count as one.
std::vector<int> number_hosts(const ft::WorldView& view, const std::vector<Rank>& ranks,
                              const Network& network);
// Whether all of these ranks that have a member may share memory.
bool may_share(const ft::WorldView& view, const std::vector<Rank>& ranks, const Network& network);

}  // namespace holdfast::group
