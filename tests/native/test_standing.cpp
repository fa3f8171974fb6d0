// Who may say what: the table, cell by cell, and what members, joiners and coordinators do with
// what the table does not let them take.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ft/coordinator_service.h"
#include "ft/joining.h"
#include "ft/membership.h"
#include "ft/standing.h"
#include "sim/memory_record.h"

namespace holdfast::ft {
namespace {

// By kind, as the table is by listener and speaker: y where it may be said.
//   to a member          from its coordinator (there is none), a member, outcast, waiting, stranger
//   to a led member      from its coordinator, ...
//   to a joiner, a founding coordinator, one just started, one that knows a view: likewise
struct KindRow {
  int claim;
  std::string_view name;
  std::string_view cells;
};
constexpr KindRow kKinds[] = {
    {1, "suspect", ".y... ..... ..... ..... .y... .y..."},
    {2, "report", ".y... ..... ..... ..... .y... .y..."},
    {3, "prepare", ".y... y.... ..... ..... ..... ....."},
    {4, "propose", ".y... y.... ..... ..... ..... ....."},
    {5, "accept", ".y... ..... ..... ..... .y... .y..."},
    {6, "decide", ".y... y.... y.... ..... ..... ....."},
    {7, "join", ".yyyy .yyyy ..... ...yy .y..y .yyyy"},
    {8, "redirect", "..... ..... y.... ..... ..... ....."},
    {9, "lobby", ".y... y.... y.... ..... ..... ....."},
    {10, "ready", ".y.yy ..... ..... ...y. .y... .y.y."},
    {11, "boundary", ".y... ..... ..... ..... .y... .y..."},
    {12, "refused", "..... y.... y.... ..... ..... ....."},
    {13, "fenced", ".y... y.... ..... ..... ..... ....."},
    {14, "greet", "..... ..... ..... ..... .y... .y..."},
    {15, "out", ".yyyy .yyyy y.... ...y. .y... .yyyy"},
    {16, "behind", ".y.yy ..... ..... ...y. .y... .y.y."},
    {17, "ask", ".y... y.... ..... ..... ..... ....."},
    {18, "absent", ".yyyy .yyyy ..... ...y. .y... .yyyy"},
    {19, "out, and so are you", ".y... ..... ..... ..... ..... ....."},
    {20, "absent, as an answer", ".y... y.... ..... ..... ..... ....."},
    {21, "out, and the signed view shows it", ".yyyy yyyyy ..... ..... ..... ....."},
};

TEST_CASE("the table of who may say what has these cells") {
  static_assert(std::size(kKinds) == kClaimCount);
  for (const KindRow& row : kKinds) {
    for (int listener = 0; listener < kListenerCount; ++listener) {
      for (int speaker = 0; speaker < kSpeakerCount; ++speaker) {
        const auto at = static_cast<std::size_t>(listener * (kSpeakerCount + 1) + speaker);
        const bool allowed = may_say(static_cast<Listener>(listener), static_cast<Speaker>(speaker),
                                     static_cast<Claim>(row.claim));
        CAPTURE(row.name);
        CAPTURE(listener);
        CAPTURE(speaker);
        CHECK(allowed == (row.cells.at(at) == 'y'));
      }
    }
  }
}

TEST_CASE("claims are kinds, but for an answer about outcasts") {
  for (int kind = 1; kind <= kMessageKindCount; ++kind) {
    Message m;
    m.kind = static_cast<MessageKind>(kind);
    CHECK(claim_of(m) == plain(m.kind));
  }
  Message answer;
  answer.kind = MessageKind::kAbsent;
  answer.lost = {MemberId{5}};
  CHECK(claim_of(answer) == Claim::kTheyAreGone);
}

constexpr CommId kWorld{77};
constexpr MemberId kA{11};
constexpr MemberId kB{12};
constexpr MemberId kStrange{99};
constexpr MemberId kOutside{500};

WorldView view_of_two() {
  WorldView view;
  view.epoch = {3};
  view.members = {kA, kB};
  view.cards = {"a", "b"};
  return view;
}

// The next view, as a stranger would have it.
Message forged(MessageKind kind) {
  Message m;
  m.kind = kind;
  m.world = kWorld;
  m.generation = {std::uint64_t{1} << 40};
  m.epoch = {kind == MessageKind::kPropose || kind == MessageKind::kPrepare ? 3U : 1001U};
  m.view = view_of_two();
  m.view.epoch = {m.epoch.value + (kind == MessageKind::kPropose ? 1 : 0)};
  m.view.members = {kStrange};
  m.view.cards = {"s"};
  m.lost = {kA, kB};
  m.text = "world";
  m.joiners = {{kStrange, Rank{-1}, "s"}};
  return m;
}

bool stays(Membership& member) {
  bool moved = member.changing() || member.fenced() || member.view() != view_of_two();
  for (const Action& action : member.take_actions()) {
    moved = moved || std::holds_alternative<Adopt>(action) ||
            std::holds_alternative<Fenced>(action) || std::holds_alternative<StopFor>(action);
  }
  return !moved;
}

TEST_CASE("no word of a stranger moves a member") {
  for (const MemberId coordinator : {kNobody, kOutside}) {
    MembershipSettings settings;
    settings.coordinator = coordinator;
    for (int kind = 1; kind <= kMessageKindCount; ++kind) {
      CAPTURE(kind);
      Membership member(kWorld, "world", kB, view_of_two(), settings);
      member.on_message(kStrange, forged(static_cast<MessageKind>(kind)), {});
      CHECK(stays(member));
      // Nor do its ballots: what the real coordinator asks for still counts.
      Message prepare = forged(MessageKind::kPrepare);
      prepare.generation = {1U << 20};
      prepare.lost = {kA};
      prepare.view = {};
      member.on_message(coordinator == kNobody ? kA : kOutside, prepare, {});
      CHECK(member.changing());
    }
  }
}

TEST_CASE("a member does not move a member that a coordinator leads") {
  MembershipSettings settings;
  settings.coordinator = kOutside;
  for (int kind = 1; kind <= kMessageKindCount; ++kind) {
    // What it says of itself does: that it has gone.
    if (static_cast<MessageKind>(kind) == MessageKind::kOut) continue;
    CAPTURE(kind);
    Membership member(kWorld, "world", kB, view_of_two(), settings);
    member.on_message(kA, forged(static_cast<MessageKind>(kind)), {});
    CHECK(stays(member));
  }
  Membership member(kWorld, "world", kB, view_of_two(), settings);
  Message out = forged(MessageKind::kOut);
  out.unproven = {kB};
  member.on_message(kA, out, {});
  CHECK_FALSE(member.fenced());
}

TEST_CASE("a joiner hears only whom it has asked") {
  for (const MessageKind kind : {MessageKind::kRedirect, MessageKind::kLobby, MessageKind::kDecide,
                                 MessageKind::kRefused, MessageKind::kOut}) {
    Joining joining("world", {kB, Rank{-1}, "b"}, std::chrono::seconds(1));
    joining.add_contact(kA);
    Message m = forged(kind);
    m.view.members = {kB, kStrange};
    m.view.cards = {"b", "s"};
    joining.on_message(kStrange, m);
    CHECK(joining.state() == Joining::JoiningState::kAsking);
    CHECK(joining.wanted().empty());
  }
}

// A coordinator with a world that it has learnt of from a member, or founded.
struct Served {
  explicit Served(Record* record = nullptr) : service(settings(record)) { service.tick({}); }
  static CoordinatorService::Settings settings(Record* record) {
    CoordinatorService::Settings s;
    s.grace = Duration::zero();
    s.record = record;
    s.instance = 7;
    s.started = 9;
    return s;
  }
  void greet(MemberId from, const WorldView& view, CommId world = kWorld) {
    Message m;
    m.kind = MessageKind::kGreet;
    m.world = world;
    m.epoch = view.epoch;
    m.view = view;
    m.elastic = true;
    m.text = "world";
    service.on_message(from, m, {});
  }
  WorldView view() { return service.worlds().empty() ? WorldView{} : service.worlds()[0].view; }

  CoordinatorService service;
};

WorldView forged_view(std::uint32_t epoch) {
  WorldView view;
  view.epoch = {epoch};
  view.members = {kStrange};
  view.cards = {"s"};
  return view;
}

TEST_CASE("a coordinator takes no view from a process that is not in the one it knows") {
  Served served;
  served.greet(kA, view_of_two());
  REQUIRE(served.view() == view_of_two());
  Message join = forged(MessageKind::kJoin);
  join.version = 0;
  served.service.on_message(kStrange, join, {});
  served.greet(kStrange, forged_view(1001));
  CHECK(served.view() == view_of_two());
  for (int kind = 1; kind <= kMessageKindCount; ++kind) {
    served.service.on_message(kStrange, forged(static_cast<MessageKind>(kind)), {});
    CHECK(served.view() == view_of_two());
  }
}

TEST_CASE("a world that is being founded is not taken over by a view from its lobby") {
  Served served;
  Message join = forged(MessageKind::kJoin);
  join.version = 2;
  join.world = {};
  served.service.on_message(kStrange, join, {});
  CommId world;
  for (const auto& [to, message] : served.service.take_sends()) world = message.world;
  REQUIRE(world != CommId{});
  served.greet(kStrange, forged_view(5), world);
  CHECK(served.view().epoch == Epoch{0});
}

TEST_CASE("a coordinator that was started anew takes no view that its record refutes") {
  sim::MemoryRecord record;
  record.worlds.emplace("world", WorldRecord{kWorld, {3}, {kA, kB}});
  Served served(&record);
  served.greet(kStrange, forged_view(1001));
  CHECK(served.view().epoch < Epoch{1001});
  served.greet(kA, view_of_two());
  CHECK(served.view() == view_of_two());
}

}  // namespace
}  // namespace holdfast::ft
