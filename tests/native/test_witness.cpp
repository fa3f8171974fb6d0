// Whose word that a process has ended is proof, with a secret and without one: to members, to a
// coordinator outside the view, and to a router whose call was refused.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comm/transport/inproc.h"
#include "ft/coordinator_service.h"
#include "ft/membership.h"
#include "ft/witness.h"
#include "group/control_router.h"

namespace holdfast::ft {
namespace {

constexpr CommId kWorld{77};
constexpr MemberId kA{11};
constexpr MemberId kB{12};
constexpr MemberId kC{13};
constexpr MemberId kD{14};
constexpr MemberId kOutside{500};
constexpr Duration kBeat = std::chrono::milliseconds(100);
constexpr Duration kGrace = std::chrono::seconds(2);

// The card of a member is its host's name here.
const HostOfCard kByName = [](const std::string& card) { return card; };

// Two hosts of two.
WorldView view_of_four() {
  WorldView view;
  view.epoch = {1};
  view.members = {kA, kB, kC, kD};
  view.cards = {"one", "one", "two", "two"};
  return view;
}

Membership make_member(MemberId self, bool secret, MemberId coordinator = kNobody) {
  MembershipSettings settings;
  settings.heartbeat = kBeat;
  settings.silence = kGrace;
  settings.coordinator = coordinator;
  if (secret) settings.host_of = kByName;
  return {kWorld, "job", self, view_of_four(), settings};
}

Message says(MessageKind kind, MemberId lost, bool proven) {
  Message m;
  m.kind = kind;
  m.world = kWorld;
  m.generation = {1U << 20};
  m.epoch = {1};
  m.lost = {lost};
  if (!proven) m.unproven = {lost};
  return m;
}

// Whom the member's next report calls proven dead.
std::vector<MemberId> proven_by(Membership& member) {
  std::vector<MemberId> proven;
  for (const Action& action : member.take_actions()) {
    if (std::holds_alternative<StopFor>(action)) member.reported({}, {});
  }
  for (const Action& action : member.take_actions()) {
    const auto* send = std::get_if<SendTo>(&action);
    if (send == nullptr || send->message.kind != MessageKind::kReport) continue;
    for (const LostRank& lost : send->message.lost_ranks) {
      const MemberId who = view_of_four().members[static_cast<std::size_t>(lost.rank.value)];
      if (lost.proven) proven.push_back(who);
    }
  }
  return proven;
}

TEST_CASE("a witness is on the dead one's host, where there is a secret") {
  const WorldView view = view_of_four();
  for (const MemberId witness : {kA, kB, kC}) {
    CHECK(is_witness(view, {}, witness, kD));
    CHECK(is_witness(view, kByName, witness, kD) == (witness == kC));
  }
  // A card that names no host makes nobody a witness; nor is anybody who is no member.
  const HostOfCard none = [](const std::string&) { return std::string(); };
  CHECK_FALSE(is_witness(view, none, kC, kD));
  CHECK_FALSE(is_witness(view, kByName, kOutside, kD));
  CHECK_FALSE(is_witness(view, kByName, kC, kOutside));
}

TEST_CASE("with a secret a member believes the dead one's neighbour, and nobody else") {
  for (const bool secret : {false, true}) {
    for (const MemberId witness : {kA, kC}) {
      CAPTURE(secret);
      CAPTURE(witness.value);
      Membership member = make_member(kB, secret);
      member.on_message(witness, says(MessageKind::kReport, kD, true), {});
      CHECK(member.is_suspect(kD) == (!secret || witness == kC));
    }
  }
}

// It may coordinate, and then the others stop for whom it has lost: that is no proof either.
TEST_CASE("with a secret a coordinator among the members proves no end on another host") {
  for (const bool secret : {false, true}) {
    for (const MemberId coordinator : {kA, kC}) {
      CAPTURE(secret);
      CAPTURE(coordinator.value);
      Membership member = make_member(kB, secret);
      member.on_message(coordinator, says(MessageKind::kPrepare, kD, true), {});
      CHECK(member.changing());
      const bool proves = !secret || coordinator == kC;
      CHECK(proven_by(member) == (proves ? std::vector{kD} : std::vector<MemberId>{}));
    }
  }
}

TEST_CASE("what a process outside the view decides is not weighed by hosts") {
  Membership member = make_member(kB, true, kOutside);
  member.on_message(kOutside, says(MessageKind::kPrepare, kD, true), {});
  CHECK(proven_by(member) == std::vector{kD});
}

// What it has seen itself it says, and its own word needs no witness.
TEST_CASE("a member that coordinates believes its own kernel of whatever host") {
  Membership member = make_member(kA, true);
  for (const MemberId dead : {kB, kC, kD}) member.on_closed(dead, {});
  bool decided = false;
  for (int i = 0; i < 10; ++i) {
    for (const Action& action : member.take_actions()) {
      if (std::holds_alternative<StopFor>(action)) member.reported({}, {});
      decided = decided || std::holds_alternative<Adopt>(action);
    }
  }
  CHECK(decided);
}

class Service {
 public:
  // `unheard`: has not called yet.
  explicit Service(bool secret, MemberId unheard = kNobody) : service_(settings(secret)) {
    for (const MemberId id : view_of_four().members) {
      if (id == unheard) continue;
      Message greet;
      greet.kind = MessageKind::kGreet;
      greet.world = kWorld;
      greet.generation = {1U << 16};
      greet.epoch = {1};
      greet.text = "job";
      greet.view = view_of_four();
      service_.on_message(id, greet, now);
    }
    said();
  }
  void suspect(MemberId by, MemberId who) {
    Message m = says(MessageKind::kSuspect, who, true);
    m.generation = {};
    service_.on_message(by, m, now);
  }
  void report(MemberId by, MemberId who) {
    Message m = says(MessageKind::kReport, who, true);
    m.generation = ballot_;
    service_.on_message(by, m, now);
  }
  void lose_connection(MemberId of) { service_.on_closed(of, false, now); }
  void run(Duration time) {
    for (const Instant end = now + time; now < end; now = now + std::chrono::milliseconds(10)) {
      service_.tick(now);
    }
  }
  // Whom it asks the others to stop for, and whether it calls that proven.
  std::vector<std::pair<MemberId, bool>> said() {
    std::vector<std::pair<MemberId, bool>> all;
    for (const auto& [to, message] : service_.take_sends()) {
      if (message.kind != MessageKind::kPrepare || to != kA) continue;
      ballot_ = message.generation;
      for (const MemberId lost : message.lost) all.emplace_back(lost, message.unproven.empty());
    }
    return all;
  }
  Instant now{std::chrono::hours(1)};

 private:
  static CoordinatorService::Settings settings(bool secret) {
    CoordinatorService::Settings made;
    made.heartbeat = kBeat;
    made.silence = kGrace;
    made.instance = made.started = 1;
    if (secret) made.host_of = kByName;
    return made;
  }
  CoordinatorService service_;
  Generation ballot_;  // that it has asked reports for
};

TEST_CASE("with a secret a coordinator outside believes the dead one's neighbour alone") {
  using Said = std::vector<std::pair<MemberId, bool>>;
  for (const bool secret : {false, true}) {
    Service service(secret);
    service.report(kA, kD);
    CHECK(service.said() == (secret ? Said{} : Said{{kD, true}}));
    service.report(kC, kD);
    CHECK(service.said() == (secret ? Said{{kD, true}} : Said{}));
  }
}

// It may be right: the coordinator may have been started when the witness had spoken.
TEST_CASE("a word that is no proof begins the time of whom nobody hears") {
  Service knows_all(true);
  knows_all.report(kA, kD);
  knows_all.run(kGrace * 2);
  CHECK(knows_all.said().empty());
  Service anew(true, kD);
  anew.report(kB, kD);
  CHECK(anew.said().empty());
  anew.report(kB, kD);
  anew.run(kGrace - kBeat * 2);
  CHECK(anew.said().empty());
  anew.run(kBeat * 4);
  const auto said = anew.said();
  REQUIRE_FALSE(said.empty());
  CHECK(said.front() == std::pair(kD, false));
}

TEST_CASE("with a secret a coordinator outside takes a closed connection for silence") {
  Service service(true);
  service.lose_connection(kD);
  service.suspect(kA, kD);
  service.run(kGrace - kBeat);
  CHECK(service.said().empty());
  service.run(kBeat * 2);
  // A complaint, and its own silence: it waits for nothing more.
  const auto said = service.said();
  REQUIRE_FALSE(said.empty());
  CHECK(said.front() == std::pair(kD, false));
}

class Owner final : public group::ControlRouterOwner {
 public:
  explicit Owner(bool secret) : secret_(secret) {}
  void want(const Joiner&) override {}
  void mend(MemberId, const std::string&) override {}
  bool has_secret() const override { return secret_; }
  void nudge(MemberId) override {}
  std::string host_of(const std::string&) const override { return {}; }
  std::string memory_of(const std::string&) const override { return {}; }
  Result<group::OwnArea> make_area() override {
    return Status(Code::kUnsupported, "no memory here");
  }
  std::optional<comm::HostPeer> open_area(MemberId, const std::string&) override { return {}; }
  void say(const std::string&) override {}

 private:
  bool secret_;
};

TEST_CASE("a refused call proves an end where there is no secret") {
  using State = Contact::ContactState;
  for (const bool secret : {false, true}) {
    auto [here, there] = comm::make_inproc_pair();
    Owner owner(secret);
    group::ControlRouter router(kA, {kBeat, kGrace}, owner);
    router.add_peer(kB, here.get(), here.get(), {});
    CHECK(router.on_refused(kB) == !secret);
    for (int i = 0; i < 3; ++i) router.turn({});
    CHECK(router.contact_of(kB, {}).state == (secret ? State::kHeard : State::kGone));
    // The word of the kernel of this host is proof in any case.
    router.on_process_ended(kB);
    for (int i = 0; i < 3; ++i) router.turn({});
    CHECK(router.contact_of(kB, {}).state == State::kGone);
  }
}

TEST_CASE("a goodbye is that of the link it comes over, whatever it says") {
  using State = Contact::ContactState;
  auto [here, there] = comm::make_inproc_pair();
  auto [here_too, there_too] = comm::make_inproc_pair();
  Owner owner(true);
  group::ControlRouter router(kA, {kBeat, kGrace}, owner);
  router.add_peer(kB, here.get(), here.get(), {});
  router.add_peer(kC, here_too.get(), here_too.get(), {});
  there->session().send_control(comm::FrameKind::kGoodbye, {}, {}, {});
  for (int i = 0; i < 3 || there->pump(); ++i) router.turn({});
  CHECK(router.contact_of(kB, {}).state == State::kLeft);
  CHECK(router.contact_of(kC, {}).state == State::kHeard);
}

}  // namespace
}  // namespace holdfast::ft
