#include "group/admission.h"

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "topology/link_map.h"

namespace holdfast::group {

// A group of a whole world grows with its world.
std::vector<Rank> all_ranks(std::vector<Rank> ranks, const ft::WorldView& view) {
  for (auto r = static_cast<std::int32_t>(ranks.size());
       r < static_cast<std::int32_t>(view.members.size()); ++r) {
    ranks.push_back({r});
  }
  return ranks;
}

std::vector<MemberId> members_of(const std::vector<Rank>& ranks, const ft::WorldView& view) {
  std::vector<MemberId> members;
  members.reserve(ranks.size());
  for (const Rank rank : ranks) {
    members.push_back(view.members[static_cast<std::size_t>(rank.value)]);
  }
  return members;
}

namespace {

// What cannot be read is no map: ops by another version do not match, which their callers are told.
comm::TakenMap told_map(const GroupIdentity& group) {
  auto map = topology::LinkMap::parse(*group.map);
  if (!map.is_ok()) return {};
  return {std::make_shared<const topology::LinkMap>(std::move(map).value()), group.map,
          group.map_version};
}

}  // namespace

std::optional<GroupConfig> admission(GroupConfig base, const Arrived& arrived) {
  bool found = false;
  std::vector<MemberId> before;
  const std::vector<Rank> wanted = base.world_ranks;
  for (const auto& [member, reports] : arrived.reports) {
    for (const GroupReport& report : *reports) {
      const GroupIdentity& group = *report.group;
      if (group.derived || group.name != base.name || arrived.entered.contains(group.id)) continue;
      if (!wanted.empty() && group.world_ranks != wanted) continue;
      found = true;
      before.push_back(member);
      base.id = group.id;
      base.world_ranks = group.world_ranks;
      base.shares_memory = group.shares_memory;
      base.whole = group.whole;
      base.next_sequence = std::max(base.next_sequence, report.next_sequence);
      const bool untold = is_planted(Planted::kUntoldMap);
      if (!untold && group.map != nullptr && group.map_version > base.map.version) {
        base.map = told_map(group);
      }
    }
  }
  if (!found) return std::nullopt;
  base.epoch = arrived.view.epoch;
  base.newcomer = true;
  if (base.whole) base.world_ranks = all_ranks(base.world_ranks, arrived.view);
  const auto at = std::find(base.world_ranks.begin(), base.world_ranks.end(), arrived.rank);
  if (!arrived.rank || at == base.world_ranks.end()) return std::nullopt;
  base.rank = {static_cast<std::int32_t>(at - base.world_ranks.begin())};
  base.members = members_of(base.world_ranks, arrived.view);
  for (std::size_t r = 0; r < base.members.size(); ++r) {
    const MemberId member = base.members[r];
    // All members that were there before have reported.
    const bool stayed = std::find(before.begin(), before.end(), member) != before.end();
    if (member != ft::kNobody && !stayed) base.joined.push_back({static_cast<std::int32_t>(r)});
  }
  return base;
}

GroupConfig founding(GroupConfig base, CommId world, const ft::WorldView& view, Rank self) {
  base.id = world;
  base.rank = self;
  base.members = view.members;
  base.world_ranks = all_ranks({}, view);
  base.epoch = view.epoch;
  base.whole = true;
  base.newcomer = true;
  return base;
}

}  // namespace holdfast::group
