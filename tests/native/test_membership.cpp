// The sans-IO parts of fault tolerance, one by one: ranges, quorum, detector, repair plans,
// messages.
#include <doctest/doctest.h>

#include "ft/detector.h"
#include "ft/joining.h"
#include "ft/message.h"
#include "ft/quorum.h"
#include "group/repair.h"
#include "group/report.h"

namespace holdfast::ft {
namespace {

using comm::Collective;
using std::chrono::milliseconds;
using std::chrono::seconds;

Ranges ranges(std::initializer_list<Range> runs) {
  Ranges result;
  for (const Range& run : runs) result.add(run);
  return result;
}

TEST_CASE("ranges join, cut and complement") {
  CHECK(ranges({{5, 7}, {1, 3}, {3, 5}}).runs() == std::vector<Range>{{1, 7}});
  CHECK(ranges({{0, 4}}).complement() == ranges({{4, kEndless}}));
  CHECK(Ranges::all().complement().empty());
  CHECK(ranges({{0, 9}}).without(ranges({{2, 3}, {5, 20}})) == ranges({{0, 2}, {3, 5}}));
  CHECK(ranges({{2, 6}, {8, kEndless}}).size_within(10) == 6);
  const Ranges a = ranges({{0, 4}});
  const Ranges b = ranges({{2, 6}});
  CHECK(pieces(ranges({{0, 8}}), {&a, &b}) == std::vector<Range>{{0, 2}, {2, 4}, {4, 6}, {6, 8}});
}

TEST_CASE("silence needs a quorum, proven death does not") {
  const std::vector<MemberId> view{{1}, {2}, {3}, {4}};
  CHECK(may_decide({view, {{4}}, true, false}));
  CHECK_FALSE(may_decide({view, {{4}}, false, false}));
  CHECK(may_decide({view, {{2}, {3}, {4}}, false, false}));
  CHECK(may_decide({view, {{1}, {4}}, false, false}));
  CHECK_FALSE(may_decide({view, {{2}, {4}}, false, false}));
  CHECK(may_decide({view, {{4}}, false, true}));
  CHECK_FALSE(may_decide({view, {}, true, true}));
  // Of a coordinator outside the view: the first member breaks no tie, its instance may.
  CHECK(may_decide({view, {{2}, {4}}, false, false, HalfOfView::kEnough}));
  CHECK_FALSE(may_decide({view, {{4}}, false, false, HalfOfView::kEnough}));
  CHECK_FALSE(may_decide({view, {{1}, {4}}, false, false, HalfOfView::kTooFew}));
  CHECK(may_decide({view, {{2}, {3}, {4}}, false, false, HalfOfView::kTooFew}));
}

TEST_CASE("silence is long, and does not begin while this process itself was stopped") {
  Detector detector(seconds(10), {});
  detector.on_frame({seconds(5)});
  CHECK_FALSE(detector.is_silent({seconds(14)}));
  CHECK(detector.is_silent({seconds(15)}));
  detector.forgive({seconds(90)});
  CHECK_FALSE(detector.is_silent({seconds(99)}));
  CHECK(detector.silent_at() == Instant{seconds(100)});
}

TEST_CASE("a peer far away has time for four round trips more, if they are not too long") {
  using std::chrono::milliseconds;
  Detector detector(seconds(10), {});
  detector.on_round_trip(milliseconds(500));
  CHECK(detector.silent_at() == Instant{seconds(12)});
  detector.on_round_trip(seconds(3600));
  CHECK(detector.silent_at() == Instant{seconds(18)});
  detector.on_round_trip({});
  CHECK(detector.silent_at() == Instant{seconds(10)});
  static_assert(patience(milliseconds(300), milliseconds(500)) == milliseconds(2300));
  static_assert(patience(milliseconds(300), -milliseconds(5)) == milliseconds(300));
}

TEST_CASE("whoever comes is asked as soon as somebody is there, not a heartbeat later") {
  Joining joining("world", {{9}, Rank{2}, "card"}, milliseconds(100));
  const auto is_connected = [](MemberId) { return true; };
  joining.tick({milliseconds(0)}, is_connected);
  CHECK(joining.take_sends().empty());
  joining.add_contact(MemberId{1});
  joining.tick({milliseconds(1)}, is_connected);
  CHECK(joining.take_sends().size() == 1);
  joining.tick({milliseconds(2)}, is_connected);
  CHECK(joining.take_sends().empty());
}

TEST_CASE("whoever is sent to a coordinator that has gone asks somebody else") {
  const MemberId living{1};
  const MemberId gone{2};
  Joining joining("world", {{9}, Rank{2}, "card"}, milliseconds(100));
  joining.add_contact(living);
  const auto is_connected = [&](MemberId member) { return member == living; };
  joining.tick({milliseconds(0)}, is_connected);
  REQUIRE(joining.take_sends().size() == 1);
  Message redirect;
  redirect.kind = MessageKind::kRedirect;
  redirect.joiners = {{gone, Rank{-1}, "card"}};
  joining.on_message(living, redirect);
  std::size_t asked = 0;
  for (int t = 10; t <= 1000; t += 10) {
    joining.tick({milliseconds(t)}, is_connected);
    for (const auto& [to, message] : joining.take_sends()) {
      CHECK(to == living);
      ++asked;
    }
  }
  CHECK(asked > 0);
}

TEST_CASE("whoever is told by its coordinator that it is out asks somebody else") {
  const MemberId out{1};
  const MemberId member{2};
  const CommId world{7};
  const auto is_connected = [](MemberId) { return true; };
  const auto answer = [&](MessageKind kind, CommId of) {
    Message m;
    m.kind = kind;
    m.world = of;
    m.joiners = {{out, Rank{-1}, "card"}};
    return m;
  };
  for (const MessageKind named_by : {MessageKind::kRedirect, MessageKind::kLobby}) {
    CAPTURE(static_cast<int>(named_by));
    Joining joining("world", {{9}, Rank{2}, "card"}, milliseconds(100));
    joining.add_contact(member);
    if (named_by == MessageKind::kLobby) joining.add_contact(out);
    joining.on_message(named_by == MessageKind::kLobby ? out : member, answer(named_by, world));
    const auto asks = [&](int at) {
      joining.tick({milliseconds(at)}, is_connected);
      std::vector<MemberId> asked;
      for (const auto& [to, message] : joining.take_sends()) {
        if (message.kind == MessageKind::kJoin) asked.push_back(to);
      }
      return asked;
    };
    CHECK(asks(0) == std::vector{out});
    // It may be out of another world of the two.
    joining.on_message(out, answer(MessageKind::kOut, {8}));
    CHECK(asks(1).empty());
    joining.on_message(out, answer(MessageKind::kOut, world));
    CHECK(asks(2) == std::vector{member});
    // It is no news.
    joining.on_message(out, answer(MessageKind::kOut, world));
    CHECK(asks(3).empty());
  }
}

group::Incident incident_of(std::vector<std::optional<group::OpReport>> reports) {
  // Rank 1 of four is lost.
  return {{2}, {{0}, {1}, {2}, {3}}, {{0}, {2}, {3}}, std::move(reports), false};
}

group::OpReport holding(std::uint32_t block, const Ranges& held) {
  return {{7}, false, false, {}, {{block, held}}};
}

TEST_CASE("a piece that somebody holds is served, the rest is reduced among the survivors") {
  const auto incident =
      incident_of({holding(0, ranges({{0, 10}})), group::OpReport{{7}, false, false, {}, {}}, {}});
  const group::OpFate start = group::fate_at_start({{0}, {1}, {2}, {3}}, 4, {1});
  const group::OpFate fate =
      group::fate_after(start, {Collective::kAllReduce, {}, false}, incident);
  CHECK(fate.planned);
  CHECK(fate.transfers == std::vector<group::Transfer>{{{0}, {2}, false, 0, 0, {0, 10}},
                                                       {{0}, {3}, false, 0, 0, {0, 10}}});
  CHECK(fate.reductions == std::vector<group::Reduction>{{0, {10, kEndless}, std::nullopt}});
  CHECK(fate.contributors == std::vector<Rank>{{0}, {2}, {3}});
  CHECK(fate.missing == std::vector<Rank>{{1}});
  CHECK(fate.retried);
  // One set of contributors for all of it: nothing is served.
  const group::OpFate atomic =
      group::fate_after(start, {Collective::kAllReduce, {}, true}, incident);
  CHECK(atomic.transfers.empty());
  CHECK(atomic.reductions == std::vector<group::Reduction>{{0, {0, kEndless}, std::nullopt}});
}

TEST_CASE("a result that one survivor has is every survivor's, with its outcome") {
  const auto incident = incident_of({group::OpReport{{7}, true, false, {1}, {}}, {}, {}});
  const group::OpFate start = group::fate_at_start({{0}, {1}, {2}, {3}}, 4, {1});
  const group::OpFate fate =
      group::fate_after(start, {Collective::kAllReduce, {}, false}, incident);
  CHECK(fate.contributors == start.contributors);
  CHECK(fate.missing.empty());
  CHECK_FALSE(fate.retried);
  CHECK(fate.transfers.size() == 2);
}

TEST_CASE("a broadcast whose root has gone is lost, unless the survivors have all of it") {
  const group::OpFate start = group::fate_at_start({{0}, {1}, {2}, {3}}, 4, {1});
  const group::RepairQuestion question{Collective::kBroadcast, {1}, false};
  CHECK(group::fate_after(start, question, incident_of({{}, {}, {}})).lost);
  const auto parts =
      incident_of({holding(0, ranges({{0, 10}})), holding(0, ranges({{5, kEndless}})), {}});
  const group::OpFate fate = group::fate_after(start, question, parts);
  CHECK_FALSE(fate.lost);
  CHECK(fate.missing.empty());
}

TEST_CASE("messages and reports survive the wire; anything else is refused") {
  Message message;
  message.kind = MessageKind::kPropose;
  message.view = {{3}, {{5}, kNobody}, {"a card", ""}, 0, {{{7}, {1}, "its card"}}};
  message.reports.add({5}, {std::byte{1}}, {});
  message.reports.add({6}, {std::byte{1}}, {std::byte{2}});
  message.change = ViewChange{1, 2, {{3}}, {{{8}, {2}, "third"}}, 4, {{3}}, {{7}}};
  message.digest = 11;
  message.body = {{std::byte{3}}, {std::byte{4}}};
  message.joiners = {{{9}, {2}, "another"}};
  message.lost = {{4}};
  message.lost_ranks = {{{6}, true}, {{2}, false}};
  message.body_number = 300;
  message.repeats = true;
  message.text = "why";
  const Bytes bytes = encode(message);
  const auto back = decode(bytes);
  REQUIRE(back.is_ok());
  CHECK(back.value() == message);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(decode(std::span(bytes).first(length)).is_ok());
  }
  group::GroupReport report;
  report.group = std::make_shared<const group::GroupIdentity>(
      group::GroupIdentity{{3},
                           "group",
                           {{0}, {2}, {4}, {1}, {7}, {-5}},
                           true,
                           false,
                           false,
                           2,
                           std::make_shared<const std::string>("a map")});
  report.next_sequence = 6;
  report.shared = group::SharedMemory::kReach;
  report.ops = {holding(1, ranges({{3, 9}}))};
  report.ops[0].held.push_back({2, Ranges::all()});
  const Body said = encode(std::vector{report});
  const auto reports = group::decode_reports(said);
  REQUIRE(reports.is_ok());
  CHECK(reports.value() == std::vector{report});
  for (Bytes Body::*part : {&Body::groups, &Body::ops}) {
    for (std::size_t length = 0; length < (said.*part).size(); ++length) {
      Body cut = said;
      (cut.*part).resize(length);
      CHECK_FALSE(group::decode_reports(cut).is_ok());
    }
  }
}

}  // namespace
}  // namespace holdfast::ft
