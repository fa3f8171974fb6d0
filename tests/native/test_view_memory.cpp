// The memory that a view's members share: what holds from the last view, and what is agreed anew.
#include "group/parts/view_memory.h"

#include <doctest/doctest.h>

#include "quiet_network.h"

namespace holdfast::ft {
namespace {

constexpr MemberId kSelf{1};
constexpr MemberId kOther{2};

struct Member {
  explicit Member(std::vector<comm::HostPeer> areas)
      : memory(std::move(areas), roster, group::Sharing(CommId{7}, kSelf, network)) {
    roster.take({1}, {kSelf, kOther}, {{0}, {1}});
  }
  void take(Epoch epoch, std::vector<MemberId> members) {
    const std::vector<MemberId> before = roster.members;
    roster.take(epoch, std::move(members), {{0}, {1}});
    memory.take_view(before);
  }
  group::GroupReports reports(group::SharedMemory self, group::SharedMemory other) const {
    group::GroupReport a;
    a.shared = self;
    group::GroupReport b;
    b.shared = other;
    return {{kSelf, std::make_shared<const group::GroupReport>(a)},
            {kOther, std::make_shared<const group::GroupReport>(b)}};
  }
  QuietNetwork network;
  group::Roster roster{Rank{0}, Epoch{1}, {}, {}};
  group::ViewMemory memory;
};

TEST_CASE("a group's first view has the areas that it was made with") {
  Member with({make_peer(), make_peer()});
  with.memory.found();
  CHECK(with.memory.shared() == group::SharedMemory::kAreas);
  CHECK(with.memory.areas_present().size() == 2);
  Member without({});
  without.memory.found();
  CHECK(without.memory.shared() == group::SharedMemory::kNone);
}

TEST_CASE("those that are left keep the least that any of them reports") {
  Member m({make_peer(), make_peer()});
  m.memory.enter(true, m.reports(group::SharedMemory::kReach, group::SharedMemory::kAreas));
  CHECK(m.memory.shared() == group::SharedMemory::kAreas);
  CHECK_FALSE(m.memory.is_under_way());
  CHECK(m.memory.areas_present().size() == 2);
}

TEST_CASE("the area of a member that was replaced is let go") {
  Member m({make_peer(), make_peer()});
  m.take({2}, {kSelf, MemberId{3}});
  CHECK(m.memory.areas_present().size() == 1);
}

TEST_CASE("where one does not know, they agree anew, if they may share") {
  Member m({make_peer(), make_peer()});
  m.memory.enter(true, m.reports(group::SharedMemory::kAreas, group::SharedMemory::kUnknown));
  CHECK(m.memory.shared() == group::SharedMemory::kUnknown);
  CHECK(m.memory.is_under_way());
  // Its own word comes when it has heard of all areas.
  CHECK(m.memory.awaited() == std::vector<MemberId>{kSelf, kOther});
  CHECK_FALSE(m.memory.settle());
  CHECK(m.network.sent > 0);
  const Bytes word = encode(group::AreaNotice{"its", group::SharedMemory::kAreas, false});
  m.memory.hear(kOther, {1}, word);
  CHECK(m.memory.settle());
  CHECK(m.memory.shared() == group::SharedMemory::kAreas);
  CHECK(m.memory.areas_present().size() == 2);
}

TEST_CASE("who may not share, or is alone, shares nothing, and asks nobody") {
  Member far({make_peer(), make_peer()});
  far.memory.enter(false, {});
  CHECK(far.memory.shared() == group::SharedMemory::kNone);
  CHECK(far.memory.areas_present().empty());
  Member alone({});
  alone.take({2}, {kSelf, kNobody});
  alone.memory.enter(true, {});
  CHECK(alone.memory.shared() == group::SharedMemory::kNone);
  CHECK(far.network.sent + alone.network.sent == 0);
}

}  // namespace
}  // namespace holdfast::ft
