// Names of derived groups, and the areas that they lease in each other's segments.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "comm/engine/host_area.h"
#include "group/parts/derivation.h"
#include "group/parts/leases.h"

namespace holdfast::group {
namespace {

using comm::AreaRoom;
using comm::Lease;
using comm::Segment;
using State = Lease::LeaseState;

// A segment as its owner and another process map it.
struct Owned {
  std::shared_ptr<Segment> segment =
      std::make_shared<Segment>(std::move(AreaRoom::create().value()));
  std::shared_ptr<Segment> elsewhere =
      std::make_shared<Segment>(std::move(AreaRoom::open(segment->name()).value()));
  std::shared_ptr<AreaRoom> room = std::make_shared<AreaRoom>(segment);
  Lease seen(std::uint64_t group) const { return AreaRoom::find(*elsewhere, CommId{group}); }
};

TEST_CASE("a lease is seen where the segment is mapped, from when it is taken to when it ends") {
  Owned owned;
  CHECK(owned.seen(5).state == State::kAbsent);
  const Lease lease = owned.room->take(CommId{5}).value();
  REQUIRE(lease.state == State::kArea);
  CHECK(owned.seen(5).offset == lease.offset);
  CHECK(lease.offset >= sizeof(comm::HostArea));
  CHECK(lease.offset + sizeof(comm::HostArea) <= owned.segment->size());
  owned.room->end(CommId{5});
  CHECK(owned.seen(5).state == State::kAbsent);
  // The area is another group's only when it is given back.
  CHECK(owned.room->take(CommId{6}).value().offset != lease.offset);
  owned.room->give_back(lease);
  CHECK(owned.room->take(CommId{7}).value().offset == lease.offset);
}

TEST_CASE("areas are as many as there is room for, and say nothing of the group before") {
  Owned owned;
  std::set<std::size_t> offsets;
  for (std::uint64_t g = 2; g < 2 + comm::kRoomAreas; ++g) {
    offsets.insert(owned.room->take(CommId{g}).value().offset);
  }
  CHECK(offsets.size() == comm::kRoomAreas);
  CHECK(owned.room->free() == 0);
  CHECK(owned.room->take(CommId{100}).value().state == State::kNoArea);
  CHECK(owned.seen(100).state == State::kNoArea);
  const Lease first = owned.seen(2);
  auto* flat = reinterpret_cast<comm::FlatArea*>(owned.segment->data() + first.offset);
  flat->halves[0].posted = comm::first_count({1}) + 7;
  owned.room->end(CommId{2});
  owned.room->give_back(first);
  REQUIRE(owned.room->take(CommId{101}).value().offset == first.offset);
  CHECK(flat->halves[0].posted == 0);
}

// Names that share a home in the table, taken and ended in many orders.
TEST_CASE("a table that is in use for long finds what is there, and nothing else") {
  Owned owned;
  std::set<std::uint64_t> there;
  std::uint64_t next = 2;
  std::uint64_t draw = 1;
  for (int step = 0; step < 20'000; ++step) {
    draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
    const bool takes = there.size() < 3 || (there.size() < 60 && (draw >> 40) % 2 == 0);
    if (takes) {
      // Eight homes, so that names lie behind each other.
      const std::uint64_t group = (next / 8) * comm::kLeasePlaces + next % 8 + 2;
      ++next;
      owned.room->give_back(owned.room->take(CommId{group}).value());
      there.insert(group);
    } else {
      auto at = there.begin();
      std::advance(at, static_cast<std::ptrdiff_t>((draw >> 33) % there.size()));
      owned.room->end(CommId{*at});
      REQUIRE(owned.seen(*at).state == State::kAbsent);
      there.erase(at);
    }
    if (step % 500 != 0) continue;
    for (const std::uint64_t group : there) REQUIRE(owned.seen(group).state != State::kAbsent);
  }
  for (const std::uint64_t group : there) owned.room->end(CommId{group});
  for (std::uint64_t group = 2; group < 100; ++group) {
    CHECK(owned.seen(group).state == State::kAbsent);
  }
}

TEST_CASE("the limit of leases is told") {
  Owned owned;
  for (std::uint64_t g = 0; g < comm::kMostLeases; ++g) {
    REQUIRE(owned.room->take(CommId{2 + g * 7}).is_ok());
  }
  CHECK(owned.room->take(CommId{3}).status().code() == Code::kConfigError);
  owned.room->end(CommId{2});
  CHECK(owned.room->take(CommId{3}).is_ok());
}

// Two members, each of which makes a group, looks for the other's lease, ends its own, and gives
// its area to the next group once the other has ended, too. What a member reads in an area is the
// number of the group that it looked up, or of none.
TEST_CASE("no area is another group's while a member may read it") {
  constexpr std::uint64_t kGroups = 3000;
  Owned sides[2];
  std::string wrong[2];
  std::atomic<std::uint64_t> seen_by[2] = {0, 0};
  const auto run = [&](std::size_t self) {
    Owned& own = sides[self];
    const Owned& other = sides[1 - self];
    const auto number_in = [](const Segment& segment, const Lease& lease) {
      return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(
          segment.data() + lease.offset + sizeof(comm::FlatArea) - sizeof(std::uint64_t)));
    };
    std::vector<std::pair<std::uint64_t, Lease>> lingering;
    for (std::uint64_t group = 2; group < 2 + kGroups; ++group) {
      std::erase_if(lingering, [&](const auto& left) {
        if (AreaRoom::find(*other.elsewhere, CommId{left.first}).state != State::kAbsent) {
          return false;
        }
        own.room->give_back(left.second);
        return true;
      });
      const Lease lease = own.room->take(CommId{group}).value();
      if (lease.state == State::kArea) number_in(*own.segment, lease).store(group);
      // Now and then a member does not wait for the other, as if it had nothing to ask it.
      const bool waits = group % 5 != 0;
      for (Lease theirs; waits && theirs.state == State::kAbsent; std::this_thread::yield()) {
        theirs = AreaRoom::find(*other.elsewhere, CommId{group});
        if (theirs.state != State::kArea) continue;
        for (int look = 0; look < 20; ++look) {
          const std::uint64_t number = number_in(*other.elsewhere, theirs).load();
          // Its owner writes the number after the lease.
          if (number > group)
            wrong[self] = std::to_string(number) + " for " + std::to_string(group);
        }
      }
      // The other one must have seen this lease before it ends, where it waits for it.
      if (waits) {
        seen_by[self].store(group);
        while (seen_by[1 - self].load() < group) std::this_thread::yield();
      }
      own.room->end(CommId{group});
      lingering.emplace_back(group, lease);
    }
  };
  std::thread one([&] { run(0); });
  std::thread two([&] { run(1); });
  one.join();
  two.join();
  CHECK(wrong[0] == "");
  CHECK(wrong[1] == "");
}

TEST_CASE("members find the same name, and no other group has it") {
  std::set<std::uint64_t> names;
  Derivation one(CommId{11});
  Derivation other(CommId{11});
  Derivation child(CommId{12});
  const std::vector<std::vector<Rank>> lists{{{0}}, {{1}}, {{0}, {1}}, {{1}, {0}}, {{0}, {1}, {2}}};
  std::size_t made = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t call = one.count_call({3});
    // A member of another of the new groups counts the call as well.
    REQUIRE(call == other.count_call({3}));
    for (const auto& list : lists) {
      REQUIRE(one.of_call({3}, call, list) == other.of_call({3}, call, list));
      names.insert(one.of_call({3}, call, list).value);
      names.insert(child.of_call({3}, call, list).value);
      for (const std::uint64_t tag : {0U, 1U}) {
        const CommId id = one.of_members({3}, tag, list).value();
        REQUIRE(id == other.of_members({3}, tag, list).value());
        names.insert(id.value);
        ++made;
      }
      made += 2;
    }
  }
  CHECK(names.size() == made);
  CHECK(*names.begin() > 1);
  // Who comes in at a step boundary counts from there, and so do the others.
  Derivation newcomer(CommId{11});
  CHECK(one.count_call({4}) == newcomer.count_call({4}));
  CHECK(one.of_members({4}, 0, {{0}}).value() == newcomer.of_members({4}, 0, {{0}}).value());
  CHECK(one.of_call({4}, 0, {{0}}) != one.of_call({3}, 0, {{0}}));
}

TEST_CASE("the limit of names that members count is told") {
  Derivation names(CommId{1});
  for (std::uint64_t tag = 0; tag < kMostMemberKeys; ++tag) {
    REQUIRE(names.of_members({3}, tag, {{0}}).is_ok());
  }
  CHECK(names.of_members({3}, kMostMemberKeys, {{0}}).status().code() == Code::kConfigError);
  CHECK(names.of_members({3}, 7, {{0}}).is_ok());
}

}  // namespace
}  // namespace holdfast::group
