#include "group/parts/roster.h"

#include <algorithm>

#include "ft/message.h"

namespace holdfast::group {
namespace {

bool has_same(const std::vector<MemberId>& now, const std::vector<MemberId>& before, Rank rank) {
  const auto r = static_cast<std::size_t>(rank.value);
  return now[r] == before[r];
}

}  // namespace

std::optional<Rank> Roster::rank_of(MemberId member) const {
  const auto at = std::find(members.begin(), members.end(), member);
  if (member == ft::kNobody || at == members.end()) return std::nullopt;
  return Rank{static_cast<std::int32_t>(at - members.begin())};
}

std::optional<Rank> Roster::place_of(MemberId member) const {
  const auto rank = rank_of(member);
  if (!rank) return std::nullopt;
  const auto at = std::lower_bound(present.begin(), present.end(), *rank);
  if (at == present.end() || *at != *rank) return std::nullopt;
  return Rank{static_cast<std::int32_t>(at - present.begin())};
}

Rank Roster::own_place() const {
  const auto at = std::lower_bound(present.begin(), present.end(), self);
  return {static_cast<std::int32_t>(at - present.begin())};
}

bool Roster::is_present(Rank rank) const {
  return std::binary_search(present.begin(), present.end(), rank);
}

bool Roster::has_gone(MemberId member) const {
  return std::any_of(gone.begin(), gone.end(),
                     [member](const auto& entry) { return entry.first == member; });
}

std::vector<MemberId> Roster::members_present() const {
  std::vector<MemberId> result;
  result.reserve(present.size());
  for (const Rank rank : present) result.push_back(member(rank));
  return result;
}

std::vector<Rank> Roster::world_ranks_present() const {
  std::vector<Rank> ranks;
  ranks.reserve(present.size());
  for (const Rank rank : present) {
    ranks.push_back(world_ranks[static_cast<std::size_t>(rank.value)]);
  }
  return ranks;
}

std::vector<Rank> Roster::stayed(const std::vector<Rank>& ranks,
                                 const std::vector<MemberId>& before) const {
  std::vector<Rank> result;
  for (const Rank rank : ranks) {
    if (has_same(members, before, rank)) result.push_back(rank);
  }
  return result;
}

std::vector<Rank> Roster::lost(const std::vector<Rank>& ranks,
                               const std::vector<MemberId>& before) const {
  std::vector<Rank> result;
  for (const Rank rank : ranks) {
    if (!has_same(members, before, rank)) result.push_back(rank);
  }
  return result;
}

void Roster::take(Epoch next, std::vector<MemberId> next_members,
                  std::vector<Rank> next_world_ranks) {
  epoch = next;
  members = std::move(next_members);
  world_ranks = std::move(next_world_ranks);
  present.clear();
  for (std::size_t r = 0; r < members.size(); ++r) {
    if (members[r] != ft::kNobody) present.push_back({static_cast<std::int32_t>(r)});
  }
  std::erase_if(left, [this](MemberId member) { return !has(member); });
  std::erase_if(gone, [this](const auto& entry) { return !has(entry.first); });
}

void Roster::note_joined(const std::vector<MemberId>& before) {
  joined.clear();
  for (const Rank rank : present) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (r >= before.size() || before[r] != members[r]) joined.push_back(rank);
  }
}

}  // namespace holdfast::group
