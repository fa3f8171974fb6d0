// A coordinator in a process of its own: who may decide after it was out of reach, or began anew.
#include <doctest/doctest.h>

#include <string>

#include "coordinated_world.h"

namespace holdfast::ft::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Ids = std::vector<std::uint64_t>;

constexpr Duration kGreetings = milliseconds(300);
constexpr Duration kDecision = seconds(2);

// Decides for one half, begins anew, and hears the other half only.
void decide_on_both_sides(CoordinatedWorld& world) {
  world.found({1, 2, 3, 4});
  world.run(kGreetings);
  world.part({3, 4});
  world.notice_silence();
  world.run(kDecision);
  CHECK(world.view_of(3) == Ids{3, 4});
  world.end();
  world.part({1, 2});
  world.start();
  world.notice_silence();
  world.run(kDecision);
}

TEST_CASE("one epoch is decided once, whichever side a coordinator begins anew on") {
  SUBCASE("without a record") {
    CoordinatedWorld world;
    decide_on_both_sides(world);
    CHECK(world.view_of(1) == Ids{1, 2, 3, 4});
    CHECK(world.blocked().find("more than half") != std::string::npos);
    world.heal();
    world.run(kDecision);
    CHECK(world.forks == 0);
    CHECK(world.fenced(1));
    CHECK(world.fenced(2));
    CHECK(world.view_of(4) == Ids{3, 4});
  }
  SUBCASE("with a record") {
    MemoryRecord record;
    CoordinatedWorld world(&record);
    decide_on_both_sides(world);
    CHECK(world.fenced(1));
    CHECK(world.fenced(2));
    world.heal();
    world.run(kDecision);
    CHECK(world.forks == 0);
    CHECK(world.view_of(4) == Ids{3, 4});
  }
}

TEST_CASE("a minority goes on where a record says so, and nowhere else") {
  MemoryRecord record;
  for (const bool recorded : {false, true}) {
    CoordinatedWorld world(recorded ? &record : nullptr);
    world.found({1, 2, 3, 4});
    world.run(kGreetings);
    world.part({4});
    world.notice_silence();
    world.run(kDecision);
    CHECK(world.view_of(4) == (recorded ? Ids{4} : Ids{1, 2, 3, 4}));
    world.end();
    world.part({1, 2, 3});
    world.start();
    world.notice_silence();
    world.run(kDecision);
    CHECK(world.view_of(1) == (recorded ? Ids{1, 2, 3, 4} : Ids{1, 2, 3}));
    CHECK(world.fenced(1) == recorded);
    world.heal();
    world.run(kDecision);
    CHECK(world.forks == 0);
  }
}

TEST_CASE("what another life of the coordinator has written meanwhile counts") {
  MemoryRecord record;
  CoordinatedWorld world(&record);
  world.found({1, 2});
  world.part({1});
  world.notice_silence();
  world.run(kDecision);
  REQUIRE(world.blocked().find("no quorum") != std::string::npos);
  record.worlds["run#0000000000000007"] = {{7}, {1}, {{1}, {2}}};
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1});
  CHECK(world.forks == 0);
}

TEST_CASE("a coordinator that begins anew decides with more than half") {
  CoordinatedWorld world;
  world.found({1, 2, 3});
  world.run(kGreetings);
  world.end();
  world.run(kGreetings);
  world.part({1, 2});
  world.start();
  world.notice_silence();
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 2});
  // It has decided this view itself: half of it is enough.
  world.part({2});
  world.notice_silence();
  world.run(kDecision);
  CHECK(world.view_of(2) == Ids{2});
  CHECK(world.forks == 0);
}

TEST_CASE("a view that was recorded and not told is what the next life decides") {
  MemoryRecord record;
  CoordinatedWorld world(&record);
  world.found({1, 2, 3});
  world.run(kGreetings);
  REQUIRE(record.worlds.size() == 1);
  // That life ends between the disk and the network.
  record.written = [&] { world.mute(); };
  world.part({1, 2});
  world.notice_silence();
  world.run(kDecision);
  const WorldRecord decided = record.worlds.begin()->second;
  CHECK(decided.epoch == Epoch{2});
  CHECK(world.view_of(1) == Ids{1, 2, 3});
  // Its next life hears of the old view from one that is in the new one no more.
  world.part({3});
  world.end();
  world.start();
  world.run(kGreetings);
  CHECK(world.fenced(3));
  world.part({1, 2});
  world.run(kDecision);
  CHECK(record.worlds.begin()->second == decided);
  CHECK(world.view_of(1) == Ids{1, 2});
  CHECK(world.view_of(2) == Ids{1, 2});
  CHECK(world.forks == 0);
}

TEST_CASE("nothing is decided while the record cannot be written") {
  MemoryRecord record;
  CoordinatedWorld world(&record);
  world.found({1, 2, 3});
  world.run(kGreetings);
  record.fails = true;
  world.part({1, 2});
  world.notice_silence();
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 2, 3});
  CHECK(world.blocked().find("record cannot be written: out of reach") != std::string::npos);
  record.fails = false;
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 2});
}

TEST_CASE("members say that a change of view waits for a coordinator that does not answer") {
  CoordinatedWorld world;
  world.found({1, 2, 3});
  world.run(kGreetings);
  world.end();
  world.die(3, true);
  world.prove_end(3);
  CHECK(world.member(1)->blocked() == "");
  world.run(kDecision);
  CHECK(world.member(1)->blocked().find("the change of view waits for it") != std::string::npos);
  CHECK(world.view_of(1) == Ids{1, 2, 3});
  world.start();
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 2});
  CHECK(world.member(1)->blocked() == "");
}

TEST_CASE("a newcomer does not wait for a member that nobody hears any more") {
  CoordinatedWorld world;
  world.come(1, 2);
  world.come(3, 2);
  world.run(seconds(3));
  REQUIRE(world.view_of(1) == Ids{1, 3});
  world.die(1, false);
  world.come(2);
  world.run(seconds(1));
  CHECK(world.waits(2));  // for the other's step boundary
  CHECK(world.view_of(3) == Ids{3});
}

TEST_CASE("a process that was voted out comes in again, as itself") {
  CoordinatedWorld world;
  for (const std::uint64_t id : {1U, 2U, 3U}) world.come(id, 3);
  world.run(seconds(3));
  REQUIRE(world.view_of(1) == Ids{1, 2, 3});
  world.part({1, 2});
  world.notice_silence();
  world.run(kDecision);
  REQUIRE(world.view_of(1) == Ids{1, 2});
  world.heal();
  world.die(3, false);  // it leaves what it was out of
  world.come(3);
  world.run(seconds(1));
  CHECK(world.waits(3));
  world.reach_boundary();
  world.run(seconds(1));
  CHECK(world.view_of(1) == Ids{1, 2, 3});
  CHECK(world.view_of(3) == Ids{1, 2, 3});
  CHECK(world.member(1)->view().outcasts.empty());
}

TEST_CASE("members that are out of reach keep their world; those that have ended do not") {
  for (const bool proven : {false, true}) {
    CoordinatedWorld world;
    world.come(1);
    world.run(seconds(3));
    REQUIRE(world.view_of(1) == Ids{1});
    world.die(1, proven);
    world.come(2);
    world.run(seconds(3));
    CHECK(world.waits(2) == !proven);
    if (!proven) CHECK(world.reason(2).find("none of its 1 members") != std::string::npos);
    world.keep = seconds(1);
  }
}

TEST_CASE("a world that nobody has heard of for long gives its name away") {
  for (const bool recorded : {false, true}) {
    MemoryRecord record;
    CoordinatedWorld world(recorded ? &record : nullptr);
    world.keep = seconds(20);
    world.start();
    world.come(1);
    world.run(seconds(3));
    world.die(1, false);
    world.come(2);
    world.run(seconds(10));
    CHECK(world.waits(2));
    world.run(seconds(15));
    CHECK(world.view_of(2) == Ids{2});
  }
}

TEST_CASE("who was voted out of a world that all others have left ends there") {
  MemoryRecord record;
  for (Record* kept : {static_cast<Record*>(nullptr), static_cast<Record*>(&record)}) {
    CoordinatedWorld world(kept);
    world.come(1, 2);
    world.come(2, 2);
    world.run(seconds(3));
    REQUIRE(world.view_of(1) == Ids{1, 2});
    world.part({2, 3});
    world.notice_silence();
    world.run(seconds(3));
    REQUIRE(world.view_of(2) == Ids{2});
    world.die(2, true);
    world.come(3);
    world.run(seconds(3));
    CHECK(world.view_of(3) == Ids{3});  // the name is free
    world.heal();
    world.run(seconds(3));
    CHECK(world.fenced(1));
    CHECK(world.view_of(1) == Ids{1, 2});
    CHECK_FALSE(world.fenced(3));
    CHECK(world.forks == 0);
    CHECK(world.worlds() == 1);
  }
}

TEST_CASE("an outage of the coordinator's network ends no job, and founds none") {
  CoordinatedWorld world;
  world.come(1, 2);
  world.come(2, 2);
  world.run(seconds(3));
  REQUIRE(world.view_of(1) == Ids{1, 2});
  world.come(3);
  world.part({3});
  // It does not hear them; nor do they hear it, but each other.
  world.cut(1);
  world.cut(2);
  world.run(seconds(3));
  CHECK(world.waits(3));
  CHECK(world.worlds() == 1);
  world.heal();
  world.run(seconds(1));
  CHECK(world.view_of(1) == Ids{1, 2});
  CHECK(world.view_of(2) == Ids{1, 2});
  CHECK(world.worlds() == 1);
  CHECK(world.forks == 0);
}

// Its coordinator ends, and only the newcomer 3 calls the next one.
void start_again_unseen(CoordinatedWorld& world) {
  world.come(1, 2);
  world.come(2, 2);
  world.run(seconds(3));
  REQUIRE(world.view_of(1) == Ids{1, 2});
  world.end();
  world.come(3);
  world.part({3});
  world.start();
}

TEST_CASE("members come before a newcomer that called a new coordinator first") {
  for (const bool recorded : {false, true}) {
    MemoryRecord record;
    CoordinatedWorld world(recorded ? &record : nullptr);
    start_again_unseen(world);
    world.run(milliseconds(500));
    CHECK(world.waits(3));
    CHECK_FALSE(world.reason(3).empty());
    world.heal();
    world.run(seconds(3));
    CHECK(world.waits(3));
    CHECK(world.worlds() == 1);
    CHECK_FALSE(world.fenced(1));
    CHECK_FALSE(world.fenced(2));
  }
}

TEST_CASE("the older of two worlds wins, however late its members call") {
  CoordinatedWorld world;
  start_again_unseen(world);
  world.run(seconds(3));
  REQUIRE(world.view_of(3) == Ids{3});  // nobody called in time
  world.heal();
  world.run(seconds(1));
  CHECK(world.fenced(3));
  CHECK_FALSE(world.fenced(1));
  CHECK_FALSE(world.fenced(2));
  CHECK(world.worlds() == 1);
}

TEST_CASE("founders that were never told begin again") {
  MemoryRecord record;
  record.worlds["run"] = {{9}, {1}, {{1}, {2}}};
  CoordinatedWorld world(&record);
  world.come(1, 2);
  world.run(seconds(1));
  CHECK(world.waits(1));
  world.come(2, 2);
  world.run(seconds(2));
  CHECK(world.view_of(1) == Ids{1, 2});
}

TEST_CASE("a member that the coordinator does not know greets it again") {
  CoordinatedWorld world;
  world.found({1, 2, 3});
  world.run(kGreetings);
  world.end();
  world.start();
  // Another one at the same connections, as after a migration.
  world.cut(1);
  world.run(kGreetings);
  world.part({1, 2});
  world.notice_silence();
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 2});
}

TEST_CASE("members that are back in reach keep their view, whoever waits in their lobby") {
  CoordinatedWorld world;
  world.come(1);
  world.run(seconds(3));
  REQUIRE(world.view_of(1) == Ids{1});
  world.come(2);
  world.run(seconds(1));
  REQUIRE(world.waits(2));
  world.part({2});
  world.cut(1);
  world.run(seconds(1));
  CHECK(world.blocked().find("none of its 1 members can be reached") != std::string::npos);
  world.heal();
  world.run(kDecision);
  CHECK(world.waits(2));
  CHECK(world.view_of(1) == Ids{1});
  CHECK(world.forks == 0);
}

TEST_CASE("who is shown out is told, and the others go on without it") {
  CoordinatedWorld world;
  world.found({1, 2, 3, 4});
  world.run(kGreetings);
  // Half of them, which the others could not do without if they were only out of reach.
  world.expel(3);
  world.expel(4);
  world.run(kDecision);
  CHECK(world.fenced(3));
  CHECK(world.fenced(4));
  CHECK(world.view_of(1) == Ids{1, 2});
  CHECK(world.view_of(2) == Ids{1, 2});
  CHECK(world.forks == 0);
}

// The words that a service answers a message with; "" if it refuses nothing.
std::string refusal_of(CoordinatorService& service, MemberId from, const Message& message) {
  service.on_message(from, message, Instant{std::chrono::seconds(1)});
  std::string text;
  for (const auto& [to, answer] : service.take_sends()) {
    if (answer.kind == MessageKind::kRefused && to == from) text = answer.text;
  }
  return text;
}

TEST_CASE("a process of one run is not heard of another") {
  CoordinatorService service({});
  service.confine({5}, {"run7"});
  service.confine({6}, {"run70"});
  Message join;
  join.kind = MessageKind::kJoin;
  join.version = 1;
  join.text = "run8/elastic";
  join.joiners = {{{5}, Rank{-1}, "card"}};
  CHECK(refusal_of(service, {5}, join) == "its token is of the run \"run7\"");
  join.text = "run7";
  CHECK(refusal_of(service, {5}, join) != "");
  CHECK(service.worlds().empty());
  join.text = "run7/elastic";
  CHECK(refusal_of(service, {5}, join) == "");
  REQUIRE(service.worlds().size() == 1);
  join.joiners = {{{6}, Rank{-1}, "card"}};
  CHECK(refusal_of(service, {6}, join) == "its token is of the run \"run70\"");
  // By the world's number, too, which is no secret; and without a name.
  CommId world;
  service.each_world([&](const Coordinator& c) { world = c.world(); });
  for (int kind = 1; kind <= kMessageKindCount; ++kind) {
    Message message;
    message.kind = static_cast<MessageKind>(kind);
    message.world = world;
    message.text = "run70/elastic";
    CAPTURE(kind);
    CHECK(refusal_of(service, {6}, message) == "its token is of the run \"run70\"");
  }
  // Who has the secret may speak of all.
  service.confine({6}, {});
  CHECK(refusal_of(service, {6}, join) == "");
}

}  // namespace
}  // namespace holdfast::ft::testing
