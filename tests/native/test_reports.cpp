// What members tell a coordinator of what they hold, once, and what it asks for when it has not
// heard it: the next view is decided on all of it, whoever decides, and whatever was lost.
#include <doctest/doctest.h>

#include <algorithm>

#include "ft/coordinator.h"
#include "ft/view_change.h"
#include "members.h"

namespace holdfast::ft {
namespace {

using testing::Members;
using Post = Members::Post;

constexpr Duration kBeat = Members::kBeat;
constexpr auto kReport = MessageKind::kReport;

MemberId member(int rank) { return Members::member(rank); }

// All of `ranks` are in one view, alone, that was decided on what each of them holds.
void check_decided(Members& world, const std::vector<int>& ranks) {
  std::vector<MemberId> present;
  Reports reports;
  for (const int r : ranks) {
    present.push_back(member(r));
    reports.add(member(r), world.bodies.at(r).groups, world.bodies.at(r).ops);
  }
  for (const int r : ranks) {
    CHECK_FALSE(world.at(r).changing());
    CHECK(world.at(r).view().present() == present);
    CHECK(world.reports(r) == reports);
  }
}

TEST_CASE("a second report to one coordinator names the first one's body") {
  Members world(4);
  world.stop(2);  // the others' reports wait for its
  world.die(3);
  world.run(kBeat / 2);
  world.die(2);
  world.run(kBeat / 2);
  check_decided(world, {0, 1});
  const auto reports = world.said(kReport, 1, 0);
  REQUIRE(reports.size() >= 2);
  CHECK_FALSE(reports.front().repeats);
  CHECK(reports.front().body.ops == world.bodies[1].ops);
  CHECK(reports.back().repeats);
  CHECK(reports.back().body == Body{});
  CHECK(reports.back().lost_ranks == std::vector<LostRank>{{{2}, true}, {{3}, true}});
  CHECK(encode(reports.back()).size() <= 24);
  CHECK(world.said(MessageKind::kAsk, 0, 1).empty());
}

TEST_CASE("what has changed since the first report is in the second") {
  Members world(4);
  world.stop(2);
  world.die(3);
  world.run(kBeat / 2);
  world.bodies[1].ops.push_back(std::byte{9});
  world.die(2);
  world.run(kBeat / 2);
  check_decided(world, {0, 1});
  CHECK_FALSE(world.said(kReport, 1, 0).back().repeats);
}

TEST_CASE("a coordinator that has not heard the first report asks for all of it") {
  Members world(4);
  world.stop(2);
  world.is_lost = [](const Post& post) { return post.message.kind == kReport; };
  world.die(3);
  world.run(kBeat / 2);
  world.is_lost = {};
  world.die(2);
  world.run(kBeat / 4);  // before anybody says anything again of its own accord
  check_decided(world, {0, 1});
  CHECK(world.said(kReport, 1, 0).at(1).repeats);
  CHECK(world.said(MessageKind::kAsk, 0, 1).size() == 1);
}

TEST_CASE("a member that is not heard says all of it again, asked or not") {
  Members world(4);
  world.stop(2);
  world.is_lost = [](const Post& post) {
    return post.message.kind == kReport || post.message.kind == MessageKind::kAsk;
  };
  world.die(3);
  world.run(kBeat / 2);
  world.is_lost = [](const Post& post) { return post.message.kind == MessageKind::kAsk; };
  world.die(2);
  world.run(kBeat * 3);
  check_decided(world, {0, 1});
}

TEST_CASE("what is lost with a connection is said again when it is made anew") {
  for (const auto kind : {kReport, MessageKind::kPrepare, MessageKind::kPropose,
                          MessageKind::kAccept, MessageKind::kDecide}) {
    CAPTURE(static_cast<int>(kind));
    Members world(3);
    world.is_lost = [&](const Post& post) { return post.message.kind == kind; };
    world.relink(0, 1);
    world.run(kBeat / 4);
    CHECK(world.at(1).changing());
    world.is_lost = {};
    for (const int other : {1, 2}) {
      world.relink(0, other);
      world.run(kBeat / 4);  // before anybody says anything again of its own accord
    }
    check_decided(world, {0, 1, 2});
  }
}

TEST_CASE("a coordinator that takes over between two reports is told all of it") {
  Members world(5);
  world.stop(3);
  world.die(4);
  world.run(kBeat / 2);
  REQUIRE(world.said(kReport, 2, 0).size() >= 1);
  world.die(0);
  world.go_on(3);
  world.run(kBeat / 2);
  check_decided(world, {1, 2, 3});
  CHECK_FALSE(world.said(kReport, 2, 1).front().repeats);
}

TEST_CASE("a loss while a view is proposed: the proposal is named, and proposed again") {
  Members world(4);
  world.is_lost = [](const Post& post) { return post.message.kind == MessageKind::kAccept; };
  world.die(3);
  world.run(kBeat / 2);
  REQUIRE(world.at(1).changing());
  world.is_lost = {};
  world.die(2);
  world.run(kBeat / 2);
  check_decided(world, {0, 1});
  CHECK(world.at(0).view().epoch == Epoch{3});  // what was accepted came first
  CHECK(world.said(MessageKind::kAsk, 0, 1).empty());
  std::size_t naming = 0;
  for (const Message& report : world.said(kReport, 1, 0)) {
    if (report.accepted.empty()) continue;
    ++naming;
    CHECK(report.repeats);
    CHECK(encode(report).size() <= 64);
  }
  CHECK(naming > 0);
}

// It has not heard the proposal; all others have accepted it.
TEST_CASE("a coordinator that takes over asks one member for what all have accepted") {
  for (const bool ask_is_lost : {false, true}) {
    Members world(6);
    world.is_lost = [](const Post& post) {
      return post.message.kind == MessageKind::kPropose && post.to == member(1);
    };
    world.die(5);
    world.run(kBeat / 2);
    world.is_lost = [&, left = ask_is_lost ? 1 : 0](const Post& post) mutable {
      return post.message.kind == MessageKind::kAsk && left-- > 0;
    };
    world.die(0);
    world.run(ask_is_lost ? kBeat * 3 : kBeat / 2);
    check_decided(world, {1, 2, 3, 4});
    CHECK(world.at(1).view().epoch == Epoch{3});
    std::size_t asked = 0;
    for (const int r : {2, 3, 4}) asked += world.said(MessageKind::kAsk, 1, r).size();
    CHECK(asked == (ask_is_lost ? 2 : 1));
  }
}

// A life of it that has forgotten, or another one.
TEST_CASE("nothing is decided on a body that is named and not known") {
  WorldView view;
  view.epoch = {1};
  for (int r = 0; r < 2; ++r) view.members.push_back(member(r));
  view.cards.resize(2);
  const Generation ballot{1 << 16};
  CoordinatorSettings settings;
  Coordinator coordinator(Members::kWorld, "job", ballot, settings);
  coordinator.begin(view, {}, false, true);
  Message report;
  report.kind = kReport;
  report.world = Members::kWorld;
  report.generation = ballot;
  report.epoch = {1};
  const auto says = [&](int rank, std::uint64_t number, bool repeats) {
    report.body_number = number;
    report.repeats = repeats;
    report.body = repeats ? Body{} : Body{{}, {std::byte{1}}};
    coordinator.on_message(member(rank), report, {});
  };
  const auto sent = [&](MessageKind kind, int to) {
    const auto sends = coordinator.take_sends();
    return std::count_if(sends.begin(), sends.end(), [&](const auto& send) {
      return send.first == member(to) && send.second.kind == kind;
    });
  };
  says(0, 1, false);
  says(1, 1, true);
  CHECK(sent(MessageKind::kAsk, 1) == 1);
  says(1, 4, false);
  CHECK(sent(MessageKind::kPropose, 1) == 1);
}

TEST_CASE("another number than the last is asked for") {
  Members world(4);
  world.stop(2);
  world.die(3);
  world.run(kBeat / 2);
  // The second body is lost on its way, and the third report names it.
  world.bodies[1].ops.push_back(std::byte{9});
  world.is_lost = [](const Post& post) { return post.message.kind == kReport; };
  world.relink(0, 1);
  world.die(2);
  world.run(kBeat / 4);
  world.is_lost = {};
  world.relink(0, 1);
  world.run(kBeat / 4);
  check_decided(world, {0, 1});
}

TEST_CASE("ranks of the lost mean something in the view that they are of, and in no other") {
  WorldView view;
  view.epoch = {3};
  view.members = {{5}, kNobody, {9}, {7}};
  Message report;
  report.kind = kReport;
  report.epoch = {3};
  report.lost = {{7}, {9}};
  report.unproven = {{7}};
  const auto losses = losses_of(report, view);
  CHECK(losses == std::vector<std::pair<MemberId, bool>>{{{7}, false}, {{9}, true}});
  const Message said = abridged(report, view);
  CHECK(said.lost.empty());
  CHECK(losses_of(decode(encode(said)).value(), view) == losses);
  WorldView later = view;
  later.epoch = {4};
  CHECK(losses_of(said, later).empty());
  Message wrong = said;
  wrong.lost_ranks = {{{4}, true}, {{-1}, true}};
  CHECK(losses_of(wrong, view).empty());
  // Who is in no view is named.
  report.lost.push_back({11});
  CHECK(abridged(report, view).lost == report.lost);
}

}  // namespace
}  // namespace holdfast::ft
