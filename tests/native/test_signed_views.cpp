// A coordinator with a secret, and processes that were let in and lie about views: of an older
// world of the name, of later views of this one, of views that are long past.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "coordinated_world.h"
#include "sim/sim_notary.h"

namespace holdfast::ft::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Numbers = std::vector<std::uint64_t>;

constexpr Duration kTurns = seconds(2);
constexpr std::uint64_t kForger = 66;

Message claim(CommId world, Epoch epoch, const std::vector<MemberId>& members) {
  Message m;
  m.kind = MessageKind::kGreet;
  m.world = world;
  m.epoch = m.view.epoch = epoch;
  m.view.members = members;
  m.view.cards.resize(members.size());
  m.elastic = true;
  m.text = "run";
  return m;
}

// As somebody has kept it who was told of the view then.
Message kept(sim::SimNotary& notary, Message greeting) {
  greeting.statement = statement_for(&notary, "run", greeting);
  return greeting;
}

// An elastic group that its coordinator has founded.
void gather(CoordinatedWorld& world, const Numbers& ids) {
  for (const auto id : ids) world.come(id, ids.size());
  world.run(kTurns);
  REQUIRE(world.view_of(ids.front()).size() == ids.size());
}

bool refused(CoordinatedWorld& world, std::uint64_t id) {
  const auto& answers = world.answers(id);
  return std::any_of(answers.begin(), answers.end(),
                     [](const Message& m) { return m.kind == MessageKind::kRefused; });
}

TEST_CASE("an older world that nobody has signed takes no name away") {
  sim::SimNotary notary;
  CoordinatedWorld world(nullptr, &notary);
  gather(world, {1, 2, 3});
  world.say(kForger, claim({5}, {7}, {{kForger}, {1}}));
  Message borrowed = claim({5}, {7}, {{kForger}, {1}});
  borrowed.statement = kept(notary, claim({4}, {7}, {{kForger}})).statement;
  world.say(kForger, borrowed);
  world.run(kTurns);
  CHECK(refused(world, kForger));
  CHECK(world.worlds() == 1);
  for (const auto id : Numbers{1, 2, 3}) {
    CHECK_FALSE(world.fenced(id));
    CHECK(world.view_of(id).size() == 3);
  }
  // The group goes on.
  world.die(3, true);
  world.prove_end(3);
  world.run(kTurns);
  CHECK(world.view_of(1) == Numbers{1, 2});
}

TEST_CASE("where nobody can sign, the older world is believed") {
  CoordinatedWorld world;
  gather(world, {1, 2, 3});
  world.say(kForger, claim({5}, {7}, {{kForger}}));
  world.run(kTurns);
  CHECK(world.fenced(1));
}

TEST_CASE("who calls first after a coordinator was started anew decides nothing by a lie") {
  sim::SimNotary notary;
  for (const CommId forged : {CommId{5}, CommId{7}}) {
    CAPTURE(forged.value);
    CoordinatedWorld world(nullptr, &notary);
    world.found({1, 2, 3}, {7});
    world.run(kTurns);
    world.end();
    world.start();
    Message lie = claim(forged, {1001}, {{kForger}});
    lie.elastic = false;
    world.say(kForger, lie);
    CHECK(refused(world, kForger));
    world.run(kTurns);
    world.die(3, true);
    world.prove_end(3);
    world.run(kTurns);
    CHECK(world.view_of(1) == Numbers{1, 2});
    CHECK_FALSE(world.fenced(2));
    CHECK(world.forks == 0);
  }
}

TEST_CASE("a view that is long past gives way to later ones, whoever shows it first") {
  sim::SimNotary notary;
  CoordinatedWorld world(nullptr, &notary);
  gather(world, {1, 2, 3, 4});
  world.die(4, true);
  world.prove_end(4);
  world.run(kTurns);
  const std::uint32_t epoch = world.member(1)->view().epoch.value;
  REQUIRE(epoch > 1);
  // A view of this world, of one process that has left since.
  const Message past = kept(notary, claim(world.world_id(1), {epoch - 1}, {{kForger}}));
  // While the coordinator knows better.
  world.say(kForger, past);
  world.run(milliseconds(300));
  CHECK_FALSE(world.fenced(1));
  // Before it does.
  world.end();
  world.start();
  world.say(kForger, past);
  // It would have that view changed at once, and the next one signed.
  Message answer = claim(world.world_id(1), {epoch - 1}, {});
  answer.view = {};
  answer.kind = MessageKind::kBoundary;
  world.say(kForger, answer);
  REQUIRE(world.answers(kForger).back().kind == MessageKind::kPrepare);
  answer.kind = MessageKind::kReport;
  answer.generation = world.answers(kForger).back().generation;
  world.say(kForger, answer);
  CHECK(world.blocked().find("just been started") != std::string::npos);
  world.run(kTurns);
  CHECK_FALSE(world.fenced(1));
  CHECK(world.view_of(1) == Numbers{1, 2, 3});
  world.die(3, true);
  world.prove_end(3);
  world.run(kTurns);
  CHECK(world.view_of(1) == Numbers{1, 2});
  CHECK(world.forks == 0);
}

TEST_CASE("an older world that was signed takes the name of a smaller one only") {
  sim::SimNotary notary;
  CoordinatedWorld world(nullptr, &notary);
  gather(world, {1, 2});
  // It has ended, and one or two of its members have kept its view.
  const Message alone = kept(notary, claim({5}, {7}, {{kForger}}));
  world.say(kForger, alone);
  const Message many = kept(notary, claim({5}, {6}, {{kForger}, {67}, {68}, {69}, {70}, {71}}));
  for (const auto id : Numbers{66, 67, 68}) world.say(id, many);
  world.run(milliseconds(300));
  CHECK(refused(world, kForger));
  CHECK_FALSE(world.fenced(1));
  // Now it is more than half of that view, and more than two: it has not ended.
  world.say(69, many);
  world.run(milliseconds(300));
  CHECK(world.fenced(1));
  CHECK(world.fenced(2));
}

TEST_CASE("a claim ends with the connection of its claimant") {
  sim::SimNotary notary;
  CoordinatedWorld world(nullptr, &notary);
  gather(world, {1, 2});
  const Message many = kept(notary, claim({5}, {6}, {{66}, {67}, {68}, {69}}));
  for (const auto id : Numbers{66, 67, 68, 69}) {
    world.say(id, many);
    world.cut(id);
  }
  world.run(milliseconds(300));
  CHECK_FALSE(world.fenced(1));
}

}  // namespace
}  // namespace holdfast::ft::testing
