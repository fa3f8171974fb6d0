// What an operator asks of a coordinator: who goes, at once or at a step boundary; who waits; how
// many may come.
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

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Status drain(CoordinatedWorld& world, int rank, Duration limit = seconds(30)) {
  return world.service().drain({"run", {rank}, "its host is replaced"}, world.now + limit);
}

Status kick(CoordinatedWorld& world, int rank) {
  return world.service().kick({"run", {rank}, "it hangs"}, world.now);
}

void greeted(CoordinatedWorld& world, const Ids& ids) {
  world.found(ids);
  world.run(kGreetings);
}

TEST_CASE("a drained member leaves at a step boundary, is told why, and stays out") {
  MemoryRecord record;
  for (const bool recorded : {false, true}) {
    CoordinatedWorld world(recorded ? &record : nullptr);
    greeted(world, {1, 2, 3});
    REQUIRE(drain(world, 1).is_ok());
    world.run(kDecision);
    // Nothing happens before its members are at a boundary.
    CHECK(world.view_of(1) == Ids{1, 2, 3});
    CHECK(world.service().find_world("run")->order_for({2}) == "drain");
    world.reach_boundary();
    world.run(kDecision);
    CHECK(world.view_of(1) == Ids{1, 3});
    CHECK(world.view_of(3) == Ids{1, 3});
    CHECK(world.fenced(2));
    CHECK(world.why_out(2) == "drained by an operator: its host is replaced");
    CHECK(world.boundaries == 2);
    CHECK(world.forks == 0);
    // It has answered: nobody who leaves waits for it.
    CHECK(world.member(1)->at_large().empty());
    // The same process may not come back; another may, for its rank.
    world.die(2, false);
    world.come(2);
    world.run(kDecision);
    CHECK(world.refusal(2) == "drained by an operator: its host is replaced");
    if (recorded) CHECK(record.worlds.begin()->second.members == std::vector<MemberId>{{1}, {3}});
    record.worlds.clear();
  }
}

TEST_CASE("a drain that reaches no boundary changes nothing, and its member may go on") {
  CoordinatedWorld world;
  greeted(world, {1, 2, 3});
  REQUIRE(drain(world, 1, seconds(1)).is_ok());
  world.run(kDecision);
  CHECK(world.service().find_world("run")->order_for({2}) == "");
  world.reach_boundary();
  world.run(kDecision);
  CHECK(world.view_of(2) == Ids{1, 2, 3});
  CHECK_FALSE(world.fenced(2));
}

TEST_CASE("a loss goes before a drain, and a drain before who comes in") {
  CoordinatedWorld world;
  greeted(world, {1, 2, 3, 4});
  REQUIRE(drain(world, 1).is_ok());
  world.run(kGreetings);
  world.reach_boundary();
  world.die(4, true);
  world.prove_end(4);
  world.run(kDecision);
  CHECK(world.forks == 0);
  world.reach_boundary();
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 3});
  CHECK(world.why_out(2) == "drained by an operator: its host is replaced");
}

TEST_CASE("a member that dies while it is drained is lost, and nothing is left of the order") {
  CoordinatedWorld world;
  greeted(world, {1, 2, 3});
  REQUIRE(drain(world, 1).is_ok());
  world.die(2, true);
  world.prove_end(2);
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 3});
  const int before = world.boundaries;
  REQUIRE(drain(world, 2).is_ok());
  world.reach_boundary();
  world.run(kDecision);
  CHECK(world.boundaries == before + 1);
  CHECK(world.view_of(1) == Ids{1});
}

TEST_CASE("a coordinator that begins anew knows of no order, and members go on") {
  CoordinatedWorld world;
  greeted(world, {1, 2, 3});
  REQUIRE(drain(world, 1).is_ok());
  REQUIRE(world.service().pause("run", world.now + seconds(60)).is_ok());
  world.run(kGreetings);
  world.reach_boundary();
  world.run(kGreetings);
  world.end();
  world.start();
  world.run(kDecision);
  // The boundary that they had reached is passed.
  CHECK(world.boundaries == 3);
  CHECK(world.view_of(2) == Ids{1, 2, 3});
}

TEST_CASE("who is kicked is out at once, is told why, and may not come back") {
  CoordinatedWorld world;
  greeted(world, {1, 2, 3});
  REQUIRE(kick(world, 1).is_ok());
  CHECK(world.service().find_world("run")->order_for({2}) == "kick");
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 3});
  CHECK(world.fenced(2));
  CHECK(world.why_out(2) == "kicked by an operator: it hangs");
  CHECK(world.member(1)->at_large().empty());
  CHECK(world.forks == 0);
  // Down to the last, one by one: each view is this coordinator's own.
  REQUIRE(kick(world, 2).is_ok());
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1});
  const Status last = kick(world, 0);
  REQUIRE_FALSE(last.is_ok());
  CHECK(has(last.message(), "the last member"));
}

TEST_CASE("who is kicked while it hangs is out, and at large until it is heard") {
  CoordinatedWorld world;
  greeted(world, {1, 2, 3});
  world.part({1, 3});
  REQUIRE(kick(world, 1).is_ok());
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 3});
  CHECK_FALSE(world.fenced(2));
  CHECK(world.member(1)->at_large().size() == 1);
  world.heal();
  world.run(kDecision);
  CHECK(world.fenced(2));
  CHECK(world.member(1)->at_large().empty());
}

TEST_CASE("who was kicked is welcome back where the others have gone without a word") {
  CoordinatedWorld world;
  greeted(world, {1, 2});
  world.part({2});
  world.cut(1);
  REQUIRE(kick(world, 1).is_ok());
  world.notice_silence();
  world.run(seconds(10));
  CHECK_FALSE(world.fenced(2));
  CHECK(world.view_of(2) == Ids{2});
  CHECK(world.forks == 0);
}

TEST_CASE("a kick that leaves no quorum is refused before anybody stops") {
  CoordinatedWorld world;
  greeted(world, {1, 2});
  world.end();
  world.part({1});
  world.start();
  world.run(kGreetings);
  const Status done = kick(world, 1);
  REQUIRE_FALSE(done.is_ok());
  CHECK(has(done.message(), "no quorum with 1 of its 2 members"));
  world.heal();
  world.run(kDecision);
  CHECK(world.view_of(2) == Ids{1, 2});
}

TEST_CASE("unknown jobs and ranks are named with those that are") {
  CoordinatedWorld world;
  greeted(world, {1, 2});
  CHECK(world.service().kick({"walk", {0}, ""}, world.now).message() ==
        "no job \"walk\"; accepted: run");
  CHECK(world.service().kick({"run", {7}, ""}, world.now).message() ==
        "no member has rank 7 in \"run\"; accepted: 0, 1");
  CHECK_FALSE(world.service().pause("walk", world.now).is_ok());
  CHECK_FALSE(world.service().resume("walk", world.now).is_ok());
}

TEST_CASE("members of a paused world wait at their boundary, and deaths are decided") {
  CoordinatedWorld world;
  greeted(world, {1, 2, 3});
  REQUIRE(world.service().pause("run", world.now + seconds(60)).is_ok());
  world.run(kGreetings);
  CHECK(world.member(1)->is_paused(world.now));
  CHECK_FALSE(world.service().find_world("run")->is_at_rest());
  world.reach_boundary();
  world.run(seconds(5));
  CHECK(world.boundaries == 0);
  CHECK(world.member(3)->is_paused(world.now));
  CHECK(world.service().find_world("run")->is_at_rest());
  world.die(3, true);
  world.prove_end(3);
  world.run(kDecision);
  CHECK(world.view_of(1) == Ids{1, 2});
  CHECK(world.boundaries == 0);
  world.run(seconds(5));
  CHECK(world.boundaries == 0);
  REQUIRE(world.service().resume("run", world.now).is_ok());
  world.run(kDecision);
  CHECK(world.boundaries == 2);
  CHECK_FALSE(world.member(1)->is_paused(world.now));
}

TEST_CASE("a pause ends by itself, and a coordinator that is gone holds nobody") {
  CoordinatedWorld world;
  greeted(world, {1, 2});
  REQUIRE(world.service().pause("run", world.now + seconds(1)).is_ok());
  world.run(kGreetings);
  world.reach_boundary();
  world.run(kDecision);
  CHECK(world.boundaries == 2);
  REQUIRE(world.service().pause("run", world.now + seconds(60)).is_ok());
  world.run(kGreetings);
  REQUIRE(world.member(1)->is_paused(world.now));
  world.end();
  world.run(seconds(3));
  CHECK_FALSE(world.member(1)->is_paused(world.now));
}

// ---- limits
// --------------------------------------------------------------------------------------

std::string refused(CoordinatorService& service, std::uint64_t from, const std::string& world,
                    std::size_t min_peers = 1) {
  Message join;
  join.kind = MessageKind::kJoin;
  join.version = min_peers;
  join.text = world;
  join.joiners = {{{from}, Rank{-1}, "card"}};
  service.on_message({from}, join, Instant{seconds(1)});
  std::string text;
  for (const auto& [to, answer] : service.take_sends()) {
    if (answer.kind == MessageKind::kRefused && to == MemberId{from}) text = answer.text;
  }
  return text;
}

CoordinatorService limited(const std::vector<std::string>& quotas) {
  CoordinatorService::Settings settings;
  for (const std::string& quota : quotas) REQUIRE(settings.quotas.add(quota).is_ok());
  return CoordinatorService(settings);
}

TEST_CASE("joins beyond a run's quota are refused with the numbers and what to do") {
  CoordinatorService service = limited({"run7=members:2,groups:2", "*=groups:1"});
  CHECK(refused(service, 1, "run7/a", 9) == "");
  CHECK(refused(service, 2, "run7/b", 9) == "");
  CHECK(refused(service, 3, "run7/b", 9) ==
        "the run \"run7\" may have 2 members, and has 2: the coordinator's operator may allow more "
        "(--quota run7=members:N)");
  // Who is there asks again, and comes into another group of the run.
  CHECK(refused(service, 2, "run7/b", 9) == "");
  CHECK(refused(service, 1, "run7/b", 9) == "");
  CHECK(has(refused(service, 1, "run7/c"), "may have 2 groups, and has 2"));
  CHECK(refused(service, 4, "run8/a", 9) == "");
  CHECK(has(refused(service, 5, "run8/b"), "may have 1 groups, and has 1"));
  CHECK(refused(service, 6, "run8/a", 9) == "");
}

TEST_CASE("a job beyond the quota is refused at its first view, and a living one never") {
  for (const std::uint32_t epoch : {1U, 2U}) {
    CoordinatorService service = limited({"run=members:1"});
    Message greet;
    greet.kind = MessageKind::kGreet;
    greet.world = {7};
    greet.epoch = greet.view.epoch = {epoch};
    greet.view.members = {{1}, {2}};
    greet.view.cards.resize(2);
    greet.text = "run";
    service.on_message({1}, greet, Instant{seconds(1)});
    CHECK(service.worlds().size() == epoch - 1);
  }
}

TEST_CASE("those who share a token have so many places in lobbies, and no more") {
  CoordinatorService service({});
  for (std::uint64_t id = 1; id <= 4; ++id) service.confine({id}, {"run7", "the token abcd", 2});
  CHECK(refused(service, 1, "run7/a", 9) == "");
  CHECK(refused(service, 2, "run7/b", 9) == "");
  const std::string why = refused(service, 3, "run7/a", 9);
  CHECK(has(why, "the token abcd has 2 processes in lobbies, and may have 2 at a time"));
  CHECK(refused(service, 1, "run7/a", 9) == "");
  service.on_closed({1}, true, Instant{seconds(2)});
  CHECK(refused(service, 3, "run7/b", 9) == "");
}

TEST_CASE("a quota is read whole or refused with what is accepted") {
  Quotas quotas;
  REQUIRE(quotas.add("run7=groups:3,members:0").is_ok());
  CHECK(quotas.of("run7") == RunQuota{0, 3});
  CHECK(quotas.of("run8") == RunQuota{});
  for (const auto* text : {"", "=members:1", "a", "a=", "a=members", "a=members:", "a=members:x",
                           "a=members:-1", "a=members:1,", "a=members:1,members:2", "a=ranks:1",
                           "a=members:99999999999999999999", "run7=members:1"}) {
    const Status done = quotas.add(text);
    REQUIRE_FALSE_MESSAGE(done.is_ok(), text);
    CHECK(has(done.message(), "accepted: RUN=members:N"));
  }
}

}  // namespace
}  // namespace holdfast::ft::testing
