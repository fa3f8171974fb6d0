// Admission: how a newcomer finds its part in the groups that its world already had, from what
// their members report at the step boundary at which it came in. Pure.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "group/group.h"
#include "group/report.h"

namespace holdfast::group {

// All ranks of the view: those in `ranks`, which a group of the whole world has, and later ones.
std::vector<Rank> all_ranks(std::vector<Rank> ranks, const ft::WorldView& view);
std::vector<MemberId> members_of(const std::vector<Rank>& ranks, const ft::WorldView& view);

struct Arrived {
  const ft::WorldView& view;  // the newcomer came in with it
  const WorldReports& reports;
  const std::set<CommId>& entered;  // groups in which the newcomer has its part already
  MemberId self;
  std::optional<Rank> rank;  // of the world; nothing: the newcomer is no member any more
};
// The newcomer's part in the group called `base.name`. `base` has what the other members do not
// decide, and may have the group's world ranks. Nothing: no such group had this rank in it.
std::optional<GroupConfig> admission(GroupConfig base, const Arrived& arrived);
// The part of rank `self` in the group of all ranks of a new world.
GroupConfig founding(GroupConfig base, CommId world, const ft::WorldView& view, Rank self);

}  // namespace holdfast::group
