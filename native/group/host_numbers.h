// Host numbers: who is on which host, and may share memory, by the cards of a world's members.
// Pure, but for how cards are read: all members, who see the same cards, find the same.
#pragma once

#include <vector>

#include "ft/message.h"

namespace holdfast::group {

class Network;

// The hosts of these ranks of the view, numbered as they appear; vacant ones count as one.
std::vector<int> number_hosts(const ft::WorldView& view, const std::vector<Rank>& ranks,
                              const Network& network);
// Whether all of those that are there may share memory.
bool may_share(const ft::WorldView& view, const std::vector<Rank>& ranks, const Network& network);

}  // namespace holdfast::group
