// Members of a world among themselves, without a network: who is told what, and what is withdrawn.
#include <doctest/doctest.h>

#include <variant>

#include "members.h"

namespace holdfast::ft {
namespace {

using testing::Members;

constexpr CommId kWorld = Members::kWorld;
constexpr Duration kBeat = Members::kBeat;

MemberId member(int rank) { return Members::member(rank); }

TEST_CASE("a connection that was made anew ends the view, and loses nobody") {
  for (int count = 2; count <= 4; ++count) {
    Members world(count);
    world.relink(0, count - 1);
    world.run(kBeat);
    for (int r = 0; r < count; ++r) {
      CHECK(world.at(r).view().epoch.value >= 2);
      CHECK(world.at(r).view() == world.at(0).view());
      CHECK(world.at(r).view().present().size() == static_cast<std::size_t>(count));
      CHECK_FALSE(world.at(r).changing());
    }
  }
}

// Neither has a quorum without the other: it used to wait for ever for what was there.
TEST_CASE("of two, the first is stopped for some time: both go on when it is back") {
  Members world(2);
  world.stop(0);
  world.is_silent(1, 0);
  world.run(kBeat * 5);
  CHECK(world.at(1).blocked().find("no quorum") != std::string::npos);
  world.go_on(0);
  world.hears(1, 0);
  world.run(kBeat * 5);
  for (const int r : {0, 1}) {
    CHECK(world.at(r).view().present().size() == 2);
    CHECK_FALSE(world.at(r).changing());
    CHECK_FALSE(world.at(r).fenced());
  }
}

TEST_CASE("a complaint of those who were stopped themselves votes nobody out") {
  Members world(4);
  // 2 and 3 were stopped, and think that it was the others; these hear everybody.
  for (const int stopped : {2, 3}) {
    for (const int healthy : {0, 1}) world.is_silent(stopped, healthy);
  }
  for (const int stopped : {2, 3}) {
    for (const int healthy : {0, 1}) world.hears(stopped, healthy);
  }
  world.run(kBeat * 8);
  for (int r = 0; r < 4; ++r) {
    CHECK(world.at(r).view().present().size() == 4);
    CHECK_FALSE(world.at(r).fenced());
    CHECK_FALSE(world.at(r).changing());
  }
}

TEST_CASE("of two that do not hear each other one goes; when they do again, none") {
  for (const bool hear_again : {false, true}) {
    Members world(4);
    world.is_silent(1, 3);
    world.is_silent(3, 1);
    if (hear_again) {
      world.run(kBeat / 2);
      world.hears(1, 3);
      world.hears(3, 1);
    }
    world.run(kBeat * 8);
    CHECK(world.at(0).view().present().size() == (hear_again ? 4 : 3));
    CHECK(world.at(3).fenced() == !hear_again);
  }
}

TEST_CASE("who was voted out is told when it can be reached, and says so to whoever asks it") {
  Members world(4);
  world.stop(0);
  for (int r = 1; r < 4; ++r) world.is_silent(r, 0);
  world.run(kBeat * 5);
  CHECK(world.at(1).view().present().size() == 3);
  world.go_on(0);
  world.run(kBeat * 5);
  CHECK(world.at(0).fenced());
  // Whoever still takes it for the coordinator hears that it is none.
  Message report;
  report.kind = MessageKind::kReport;
  report.world = kWorld;
  report.epoch = {1};
  world.at(0).on_message(member(1), report, {});
  bool answered = false;
  for (const Action& action : world.at(0).take_actions()) {
    const auto* send = std::get_if<SendTo>(&action);
    answered = answered || (send != nullptr && send->message.kind == MessageKind::kOut);
  }
  CHECK(answered);
}

// It is the first of them, and so the coordinator in the others' eyes: it was sent to itself.
TEST_CASE("who was let in and has not heard so is told by any member that it asks") {
  Members world(3);
  Message join;
  join.kind = MessageKind::kJoin;
  join.world = kWorld;
  join.text = "job";
  join.joiners = {{member(0), Rank{0}, "card"}};
  world.at(2).on_message(member(0), join, {});
  const std::vector<Action> actions = world.at(2).take_actions();
  REQUIRE(actions.size() == 1);
  const auto& answer = std::get<SendTo>(actions[0]);
  CHECK(answer.to == member(0));
  CHECK(answer.message.kind == MessageKind::kDecide);
  CHECK(answer.message.view == world.at(2).view());
}

}  // namespace
}  // namespace holdfast::ft
