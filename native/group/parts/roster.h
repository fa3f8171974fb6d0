// Roster: which member has which rank in a group's view, and which members have gone meanwhile. A
// value: it follows what the world has decided, and decides nothing.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace holdfast::group {

struct Roster {
  Rank self;
  Epoch epoch;
  std::vector<MemberId> members;   // by rank; MemberId{} where vacant
  std::vector<Rank> world_ranks;   // by rank
  std::vector<Rank> present = {};  // ranks that have a member, rising; none before the first view
  std::vector<Rank> joined = {};   // those that came in with the view
  // Members that have died, or said goodbye, and are still in the view.
  std::vector<std::pair<MemberId, Status>> gone = {};
  std::set<MemberId> left = {};  // those of `gone` that said goodbye

  bool is_full() const { return present.size() == members.size(); }
  bool has(MemberId member) const { return rank_of(member).has_value(); }
  std::optional<Rank> rank_of(MemberId member) const;
  // The member's rank among those present.
  std::optional<Rank> place_of(MemberId member) const;
  Rank own_place() const;
  bool is_present(Rank rank) const;
  bool has_gone(MemberId member) const;
  MemberId member(Rank rank) const { return members[static_cast<std::size_t>(rank.value)]; }
  std::vector<MemberId> members_present() const;
  std::vector<Rank> world_ranks_present() const;
  // Those of `ranks`, with the members `before`, that still have the same member (stayed), or not
  // (lost).
  std::vector<Rank> stayed(const std::vector<Rank>& ranks,
                           const std::vector<MemberId>& before) const;
  std::vector<Rank> lost(const std::vector<Rank>& ranks, const std::vector<MemberId>& before) const;

  // Takes over the next view.
  void take(Epoch next, std::vector<MemberId> next_members, std::vector<Rank> next_world_ranks);
  // Notes as joined the ranks whose members were not among `before`.
  void note_joined(const std::vector<MemberId>& before);
};

}  // namespace holdfast::group
