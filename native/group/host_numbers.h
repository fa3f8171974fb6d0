// Host numbers: which members of a world are on which host, and whether they may share memory, by
// their cards. Pure, except for how cards are read: all members see the same cards and find the
// same.
#pragma once

#include <vector>

#include "ft/message.h"

namespace holdfast::group {

class Network;

// The hosts of these ranks of the view, numbered in order of appearance; vacant ranks count as one.
std::vector<int> number_hosts(const ft::WorldView& view, const std::vector<Rank>& ranks,
                              const Network& network);
// Whether all of these ranks that have a member may share memory.
bool may_share(const ft::WorldView& view, const std::vector<Rank>& ranks, const Network& network);

}  // namespace holdfast::group
