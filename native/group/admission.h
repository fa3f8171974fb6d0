// Admission: how a newcomer finds its part in the groups of a world that were there before it, by
// what their members report at the step boundary at which it came in. Pure.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "group/group.h"
#include "group/report.h"

namespace holdfast::group {

// All ranks of the view: those of `ranks`, which a group of the whole world has, and later ones.
std::vector<Rank> all_ranks(std::vector<Rank> ranks, const ft::WorldView& view);
std::vector<MemberId> members_of(const std::vector<Rank>& ranks, const ft::WorldView& view);

struct Arrived {
  const ft::WorldView& view;  // that the newcomer came in with
  const WorldReports& reports;
  const std::set<CommId>& entered;  // groups that it has its part in already
  MemberId self;
  std::optional<Rank> rank;  // of the world; nothing: it is no member any more
};
// Its part in a group called `base.name`; `base` has what the others do not decide, and may have
// the ranks of the world that the group is of. Nothing: there was none with this rank in it.
std::optional<GroupConfig> admission(GroupConfig base, const Arrived& arrived);
// The part of rank `self` in the group of all ranks of a world that begins.
GroupConfig founding(GroupConfig base, CommId world, const ft::WorldView& view, Rank self);

}  // namespace holdfast::group
