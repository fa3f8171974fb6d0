// Roster: who has which rank in a group's view, and who of them has gone meanwhile. A value: it
// follows what the world has decided, and decides nothing.
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
  // Who has died, or said goodbye, and is still in the view.
  std::vector<std::pair<MemberId, Status>> gone = {};
  std::set<MemberId> left = {};  // who of them said goodbye

  bool is_full() const { return present.size() == members.size(); }
  bool has(MemberId member) const { return rank_of(member).has_value(); }
  std::optional<Rank> rank_of(MemberId member) const;
  // Its rank among those present.
  std::optional<Rank> place_of(MemberId member) const;
  Rank own_place() const;
  bool is_present(Rank rank) const;
  bool has_gone(MemberId member) const;
  MemberId member(Rank rank) const { return members[static_cast<std::size_t>(rank.value)]; }
  std::vector<MemberId> members_present() const;
  std::vector<Rank> world_ranks_present() const;
  // Those of `ranks`, whose members were `before`, who have the same member still, or no longer.
  std::vector<Rank> stayed(const std::vector<Rank>& ranks,
                           const std::vector<MemberId>& before) const;
  std::vector<Rank> lost(const std::vector<Rank>& ranks, const std::vector<MemberId>& before) const;

  // The next view.
  void take(Epoch next, std::vector<MemberId> next_members, std::vector<Rank> next_world_ranks);
  // Who was not among `before`.
  void note_joined(const std::vector<MemberId>& before);
};

}  // namespace holdfast::group
