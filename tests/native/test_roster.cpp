// Who has which rank, from view to view.
#include "group/parts/roster.h"

#include <doctest/doctest.h>

#include "ft/message.h"

namespace holdfast::ft {
namespace {

constexpr MemberId kA{1};
constexpr MemberId kB{2};
constexpr MemberId kC{3};

group::Roster three() {
  group::Roster roster{Rank{0}, Epoch{1}, {}, {}};
  roster.take(Epoch{1}, {kA, kB, kC}, {{4}, {5}, {6}});
  return roster;
}

TEST_CASE("places count only ranks that are present") {
  group::Roster roster = three();
  CHECK(roster.is_full());
  roster.take(Epoch{2}, {kA, kNobody, kC}, {{4}, {5}, {6}});
  CHECK_FALSE(roster.is_full());
  CHECK(roster.present == std::vector<Rank>{{0}, {2}});
  CHECK(roster.rank_of(kC) == Rank{2});
  CHECK(roster.place_of(kC) == Rank{1});
  CHECK(roster.own_place() == Rank{0});
  CHECK(roster.world_ranks_present() == std::vector<Rank>{{4}, {6}});
  CHECK(roster.members_present() == std::vector<MemberId>{kA, kC});
}

TEST_CASE("nobody has no rank, though places are vacant") {
  group::Roster roster = three();
  roster.take(Epoch{2}, {kA, kNobody, kC}, {{4}, {5}, {6}});
  CHECK_FALSE(roster.has(kNobody));
  CHECK_FALSE(roster.has(kB));
}

TEST_CASE("who has gone is forgotten with the view that was without it") {
  group::Roster roster = three();
  roster.gone.emplace_back(kB, Status{Code::kPeerLost, "killed"});
  roster.gone.emplace_back(kC, Status{Code::kPeerLost, "the peer left"});
  roster.left.insert(kC);
  CHECK(roster.has_gone(kB));
  roster.take(Epoch{2}, {kA, kNobody, kC}, {{4}, {5}, {6}});
  CHECK_FALSE(roster.has_gone(kB));
  CHECK(roster.has_gone(kC));
  CHECK(roster.left.contains(kC));
  roster.take(Epoch{3}, {kA, kNobody, kNobody}, {{4}, {5}, {6}});
  CHECK(roster.left.empty());
}

TEST_CASE("a rank whose member is another one is lost, and has joined") {
  group::Roster roster = three();
  const std::vector<MemberId> before = roster.members;
  const std::vector<Rank> ranks = roster.present;
  roster.take(Epoch{2}, {kA, MemberId{9}, kC, MemberId{10}}, {{4}, {5}, {6}, {7}});
  CHECK(roster.lost(ranks, before) == std::vector<Rank>{{1}});
  CHECK(roster.stayed(ranks, before) == std::vector<Rank>{{0}, {2}});
  roster.note_joined(before);
  CHECK(roster.joined == std::vector<Rank>{{1}, {3}});
}

}  // namespace
}  // namespace holdfast::ft
