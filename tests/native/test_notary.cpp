// Statements: what is signed of a view, and what nobody can change in it afterwards.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "ft/membership.h"
#include "ft/notary.h"
#include "sim/sim_notary.h"

namespace holdfast::ft {
namespace {

constexpr MemberId kAnn{11};
constexpr MemberId kBob{12};
constexpr MemberId kCy{13};
constexpr MemberId kLiar{99};
constexpr MemberId kLeader{500};

Message decided_view(Epoch epoch, const std::vector<MemberId>& members) {
  Message m;
  m.kind = MessageKind::kDecide;
  m.world = {77};
  m.epoch = m.view.epoch = epoch;
  m.view.members = members;
  for (const MemberId member : members) m.view.cards.push_back(std::to_string(member.value));
  m.view.outcasts = {{kCy, Rank{2}, "cy"}};
  m.boundary = true;
  m.reports.add(kAnn, {std::byte{1}}, {std::byte{2}});
  return m;
}

TEST_CASE("a statement is for one view, and for all that comes with it") {
  sim::SimNotary notary;
  Message sound = decided_view({3}, {kAnn, kBob});
  sound.statement = statement_for(&notary, "run", sound);
  REQUIRE(!sound.statement.empty());
  CHECK(sound.statement.size() <= kMaxStatementBytes);
  CHECK(is_attested(&notary, "run", sound));
  CHECK_FALSE(is_attested(&notary, "other run", sound));
  // Who decided it, and by which message it came, is no part of it.
  Message greeting = sound;
  greeting.kind = MessageKind::kGreet;
  greeting.generation = {99};
  greeting.epoch = {};
  CHECK(is_attested(&notary, "run", greeting));
  const std::function<void(Message&)> kSwaps[] = {
      [](Message& m) { m.world = {78}; },
      [](Message& m) { ++m.view.epoch.value; },
      [](Message& m) { m.view.members[1] = kLiar; },
      [](Message& m) { m.view.cards[1] = "elsewhere"; },
      [](Message& m) { m.view.outcasts.clear(); },
      [](Message& m) { ++m.view.admitted; },
      [](Message& m) { m.boundary = false; },
      [](Message& m) { m.reports.clear(); },
      [](Message& m) { m.statement.clear(); },
      [](Message& m) { m.statement.pop_back(); },
      [](Message& m) { m.statement[0] ^= std::byte{1}; },
      [](Message& m) { m.statement[kDigestBytes] ^= std::byte{1}; },
      [](Message& m) { m.statement.resize(kDigestBytes); },
      [](Message& m) { m.change.emplace(); },
  };
  for (const auto& swap : kSwaps) {
    CAPTURE(&swap - kSwaps);
    Message swapped = sound;
    swap(swapped);
    CHECK_FALSE(is_attested(&notary, "run", swapped));
  }
  // Where nobody signs, nobody can know.
  CHECK(is_attested(nullptr, "run", decided_view({3}, {kLiar})));
  CHECK(statement_for(nullptr, "run", sound).empty());
}

TEST_CASE("a statement travels with its message") {
  Message m = decided_view({3}, {kAnn, kBob});
  m.statement.assign(kMaxStatementBytes, std::byte{7});
  const auto read = decode(encode(m));
  REQUIRE(read.is_ok());
  CHECK(read.value() == m);
  m.statement.push_back(std::byte{7});
  CHECK_FALSE(decode(encode(m)).is_ok());
}

// That this process is out, as somebody says it who has been told of the view, or not.
Message out_notice(MessageKind kind, Notary* notary, Message view) {
  view.statement = statement_for(notary, "run", view);
  Message m;
  m.kind = kind;
  m.world = view.world;
  m.epoch = view.epoch;
  m.view = members_of(view.view);
  m.statement = view.statement;
  if (kind == MessageKind::kOut) m.unproven = {kBob};
  return m;
}

bool ends_by(const Message& notice, Notary* notary, MemberId coordinator) {
  MembershipSettings settings;
  settings.coordinator = coordinator;
  settings.notary = notary;
  WorldView view = decided_view({3}, {kAnn, kBob}).view;
  view.outcasts.clear();
  Membership member({77}, "run", kBob, view, settings);
  member.on_message(kLiar, notice, {});
  return member.fenced();
}

TEST_CASE("a member is out when it is shown the signed view, by whomever, and not before") {
  sim::SimNotary notary;
  const Message without = decided_view({5}, {kAnn, kNobody, kCy});
  for (const MemberId coordinator : {kNobody, kLeader}) {
    for (const MessageKind kind : {MessageKind::kFenced, MessageKind::kOut}) {
      CAPTURE(coordinator.value);
      CAPTURE(static_cast<int>(kind));
      const Message notice = out_notice(kind, &notary, without);
      CHECK(ends_by(notice, &notary, coordinator));
      // Nobody signs here.
      CHECK_FALSE(ends_by(notice, nullptr, coordinator));
      Message unsigned_notice = notice;
      unsigned_notice.statement.clear();
      CHECK_FALSE(ends_by(unsigned_notice, &notary, coordinator));
      Message other_members = notice;
      other_members.view.members[2] = kLiar;
      CHECK_FALSE(ends_by(other_members, &notary, coordinator));
      // Truly signed, and no evidence: the member has come in since; it is in that view.
      const Message before = decided_view({2}, {kAnn});
      CHECK_FALSE(ends_by(out_notice(kind, &notary, before), &notary, coordinator));
      const Message within = decided_view({5}, {kAnn, kBob});
      CHECK_FALSE(ends_by(out_notice(kind, &notary, within), &notary, coordinator));
    }
  }
}

}  // namespace
}  // namespace holdfast::ft
