// What a process knows of its peers, and which of its worlds and groups hears what they say.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport/inproc.h"
#include "group/control_router.h"

namespace holdfast {
namespace {

constexpr MemberId kPeer{2};

void send(comm::Link& link, const ft::Message& message) {
  const ft::Bytes bytes = encode(message);
  comm::FrameHeader header;
  header.kind = comm::FrameKind::kMembership;
  header.total_bytes = bytes.size();
  link.session().send_control(header, bytes);
}

class Owner final : public group::ControlRouterOwner {
 public:
  void want(const ft::Joiner& joiner) override { wanted.push_back(joiner.member); }
  void mend(MemberId, const std::string&) override {}
  void nudge(MemberId) override {}
  std::string host_of(const std::string&) const override { return {}; }
  std::string memory_of(const std::string&) const override { return {}; }
  Result<group::OwnArea> make_area() override {
    return Status(Code::kUnsupported, "no memory here");
  }
  std::optional<comm::HostPeer> open_area(MemberId, const std::string&) override { return {}; }
  void say(const std::string&) override {}

  std::vector<MemberId> wanted;
};

TEST_CASE("a peer whose process has ended is gone, though its connection stays open") {
  using Contact = ft::Contact::ContactState;
  for (const bool says_goodbye : {false, true}) {
    auto [here, there] = comm::make_inproc_pair();
    Owner owner;
    group::ControlRouter router({1}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
    Instant now{std::chrono::seconds(1)};
    router.add_peer(kPeer, here.get(), here.get(), now);
    router.turn(now);
    CHECK(router.contact_of(kPeer, now).state == Contact::kHeard);
    // What was under way when it ended is heard first.
    if (says_goodbye) there->session().send_control(comm::FrameKind::kGoodbye, {}, {}, {});
    while (there->pump()) continue;
    router.on_process_ended(kPeer);
    router.on_process_ended({3});
    for (int i = 0; i < 3; ++i) router.turn(now);
    CHECK(router.contact_of(kPeer, now).state == (says_goodbye ? Contact::kLeft : Contact::kGone));
    CHECK(router.loss_of(kPeer)->gone);
    CHECK(router.take_forgotten() == std::vector<MemberId>{kPeer});
  }
}

// Calls of a group that is not made here yet, and words of groups that have ended here.
TEST_CASE("a peer that says much to groups unknown here is still heard by who comes later") {
  for (const auto kind : {comm::FrameKind::kCall, comm::FrameKind::kGoodbye}) {
    auto [here, there] = comm::make_inproc_pair();
    Owner owner;
    group::ControlRouter router({1}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
    const Instant now{std::chrono::seconds(1)};
    router.add_peer(kPeer, here.get(), here.get(), now);
    const auto hear = [&, there = there.get()] {
      for (int i = 0; i < 3 || there->pump(); ++i) router.turn(now);
    };
    for (std::uint32_t i = 0; i < 4300; ++i) {
      there->session().send_control(kind, {77}, {i}, std::vector<std::byte>(100));
    }
    hear();
    ft::Message join;
    join.kind = ft::MessageKind::kJoin;
    join.text = "job";
    join.joiners = {{kPeer, {-1}, "card"}};
    send(*there, join);
    hear();
    ft::CoordinatorService service({});
    router.set_service(&service);
    router.deliver_early(now);
    CHECK(service.worlds().size() + service.take_sends().size() > 0);
  }
}

// Members wait to be called, and it may be one that a newcomer has never heard of.
// A process that is in no world here begins a message of membership that never ends.
TEST_CASE("of strangers whose messages lie here, the one that began first gives way") {
  constexpr int kStrangers = 5;
  constexpr std::size_t kPart = 512 * 1024;
  constexpr std::size_t kParts = 10;  // 5 MiB each
  Owner owner;
  group::ControlRouter router({1}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
  std::vector<std::pair<std::unique_ptr<comm::Link>, std::unique_ptr<comm::Link>>> links;
  for (std::uint64_t i = 0; i < kStrangers; ++i) {
    links.push_back(comm::make_inproc_pair());
    auto& [here, there] = links.back();
    const Instant now{std::chrono::milliseconds(i)};
    router.add_peer({10 + i}, here.get(), here.get(), now);
    for (std::size_t part = 0; part < kParts; ++part) {
      comm::FrameHeader header;
      header.kind = comm::FrameKind::kMembership;
      header.payload_bytes = kPart;
      header.offset = part * kPart;
      header.total_bytes = ft::kMaxMessageBytes;
      there->session().send_control(header, ft::Bytes(kPart));
      for (int k = 0; k < 3 || there->pump(); ++k) router.turn(now);
    }
  }
  CHECK_FALSE(router.is_connected({10}));
  CHECK(router.is_connected({10 + kStrangers - 1}));
  CHECK(router.take_forgotten().front() == MemberId{10});
}

TEST_CASE("a member's greeting from the largest world has room among strangers' messages") {
  ft::Message greet;
  greet.kind = ft::MessageKind::kGreet;
  for (std::uint64_t r = 0; r < ft::kMaxRanks; ++r) {
    greet.view.members.push_back({r + 1});
    greet.view.cards.emplace_back(1000, 'c');
  }
  CHECK(encode(greet).size() < 8U << 20);
}

// Crumbs would cost many times their size.
TEST_CASE("a message of membership comes in parts as long as may be") {
  for (const std::uint32_t part : {0U, 1U, 1000U}) {
    auto [here, there] = comm::make_inproc_pair();
    Owner owner;
    group::ControlRouter router({1}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
    router.add_peer(kPeer, here.get(), here.get(), {});
    comm::FrameHeader header;
    header.kind = comm::FrameKind::kMembership;
    header.payload_bytes = part;
    header.total_bytes = 1U << 20;
    there->session().send_control(header, ft::Bytes(part));
    for (int k = 0; k < 3 || there->pump(); ++k) router.turn({});
    CHECK_FALSE(router.is_connected(kPeer));
  }
}

TEST_CASE("a newcomer calls the coordinator that it is sent to, whichever id is larger") {
  for (const MemberId coordinator : {MemberId{1}, MemberId{9}}) {
    auto [here, there] = comm::make_inproc_pair();
    Owner owner;
    group::ControlRouter router({5}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
    const Instant now{std::chrono::seconds(1)};
    ft::Joining joining("job", {{5}, {0}, "card"}, std::chrono::seconds(1));
    joining.add_contact(kPeer);
    router.set_joining(&joining);
    router.add_peer(kPeer, here.get(), here.get(), now);
    ft::Message redirect;
    redirect.kind = ft::MessageKind::kRedirect;
    redirect.joiners = {{coordinator, {-1}, "its card"}};
    send(*there, redirect);
    for (int i = 0; i < 3 || there->pump(); ++i) router.turn(now);
    CHECK(std::count(owner.wanted.begin(), owner.wanted.end(), coordinator) > 0);
  }
}

TEST_CASE("what a newcomer asks in its greeting is answered as if it had come in a frame") {
  const group::ControlRouter::Timing timing{std::chrono::seconds(1), std::chrono::seconds(10)};
  const Instant now{std::chrono::seconds(1)};
  Owner owner;
  group::ControlRouter newcomer({5}, timing, owner);
  CHECK(newcomer.opening({1}).empty());
  ft::Joining joining("run7", {{5}, {-1}, "card"}, std::chrono::seconds(1), 2);
  newcomer.set_joining(&joining);
  const ft::Bytes opening = newcomer.opening({1});
  CHECK(ft::decode(opening).value().kind == ft::MessageKind::kJoin);

  ft::Message greeting;
  greeting.kind = ft::MessageKind::kGreet;
  ft::Bytes cut = opening;
  cut.pop_back();
  for (const bool heard : {false, true}) {
    ft::CoordinatorService service({.grace = Duration::zero()});
    group::ControlRouter coordinator({1}, timing, owner);
    coordinator.set_service(&service);
    auto [here, there] = comm::make_inproc_pair();
    coordinator.add_peer({5}, here.get(), here.get(), now);
    for (const ft::Bytes& bytes : {ft::Bytes(), cut, encode(greeting)}) {
      coordinator.hear_opening({5}, bytes, now);
    }
    CHECK(service.worlds().empty());
    if (heard) coordinator.hear_opening({5}, opening, now);
    for (int i = 0; i < 3 || there->pump(); ++i) coordinator.turn(now);
    std::vector<ft::MessageKind> answers;
    while (const auto frame = there->session().take_control()) {
      if (frame->header.kind != comm::FrameKind::kMembership) continue;
      answers.push_back(ft::decode(frame->payload).value().kind);
    }
    const bool is_told = std::count(answers.begin(), answers.end(), ft::MessageKind::kLobby) > 0;
    CHECK(is_told == heard);
    CHECK(answers.empty() != heard);
  }
  ft::Message refused;
  refused.kind = ft::MessageKind::kRefused;
  joining.on_message({1}, refused);
  CHECK(joining.state() == ft::Joining::JoiningState::kRefused);
  CHECK(newcomer.opening({1}).empty());
}

TEST_CASE("a newcomer whose coordinator leaves the world, and lives on, asks somebody else") {
  constexpr MemberId kOther{3};
  constexpr CommId kWorld{77};
  for (const CommId left : {kWorld, CommId{78}}) {
    auto [here, there] = comm::make_inproc_pair();
    auto [to_other, other] = comm::make_inproc_pair();
    Owner owner;
    group::ControlRouter router({5}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
    ft::Joining joining("job", {{5}, {0}, "card"}, std::chrono::seconds(1));
    joining.add_contact(kPeer);
    joining.add_contact(kOther);
    router.set_joining(&joining);
    router.add_peer(kPeer, here.get(), here.get(), {});
    ft::Message lobby;
    lobby.kind = ft::MessageKind::kLobby;
    lobby.world = kWorld;
    send(*there, lobby);
    for (int i = 0; i < 3 || there->pump(); ++i) router.turn({});
    CHECK(joining.state() == ft::Joining::JoiningState::kWaiting);
    router.add_peer(kOther, to_other.get(), to_other.get(), {});
    there->session().send_control(comm::FrameKind::kGoodbye, left, {3}, {});
    for (int i = 0; i < 3 || there->pump() || other->pump(); ++i) router.turn({});
    const bool asked = joining.state() == ft::Joining::JoiningState::kAsking;
    CHECK(asked == (left == kWorld));
    int joins = 0;
    while (const auto frame = other->session().take_control()) {
      joins += frame->header.kind == comm::FrameKind::kMembership ? 1 : 0;
    }
    CHECK(joins == (left == kWorld ? 1 : 0));
  }
}

// Its goodbye may have been lost with a connection.
TEST_CASE("who asks for a group that has been left here is told so") {
  auto [here, there] = comm::make_inproc_pair();
  Owner owner;
  group::ControlRouter router({1}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
  const Instant now{std::chrono::seconds(1)};
  router.add_peer(kPeer, here.get(), here.get(), now);
  constexpr CommId kLeft{77};
  constexpr CommId kUnknown{78};
  router.note_ended(kLeft);
  for (const CommId group : {kLeft, kUnknown}) {
    there->session().send_control(comm::FrameKind::kClosing, group, {3}, {});
    ft::Message report;
    report.kind = ft::MessageKind::kReport;
    report.world = group;
    send(*there, report);
  }
  for (int i = 0; i < 3 || there->pump(); ++i) router.turn(now);
  std::vector<comm::FrameHeader> said;
  while (const auto frame = there->session().take_control()) {
    if (frame->header.kind != comm::FrameKind::kHeartbeat) said.push_back(frame->header);
  }
  REQUIRE(said.size() == 2);
  CHECK(said[0].kind == comm::FrameKind::kSettled);
  CHECK(said[0].key.epoch == Epoch{3});
  CHECK(said[1].kind == comm::FrameKind::kGoodbye);
  for (const comm::FrameHeader& header : said) CHECK(header.key.comm == kLeft);
}

// Who leaves a world may come back into it: it must not say of the new life that it has left.
TEST_CASE("who wants into a world again has not left it") {
  auto [here, there] = comm::make_inproc_pair();
  Owner owner;
  group::ControlRouter router({1}, {std::chrono::seconds(1), std::chrono::seconds(10)}, owner);
  const Instant now{std::chrono::seconds(1)};
  router.add_peer(kPeer, here.get(), here.get(), now);
  constexpr CommId kWorld{77};
  router.note_ended(kWorld);
  ft::Joining joining("job", {{1}, {0}, "card"}, std::chrono::seconds(1));
  router.set_joining(&joining);
  router.set_joining(nullptr);  // it is in, and the world is being made
  there->session().send_control(comm::FrameKind::kClosing, kWorld, {3}, {});
  ft::Message prepare;
  prepare.kind = ft::MessageKind::kPrepare;
  prepare.world = kWorld;
  send(*there, prepare);
  for (int i = 0; i < 3 || there->pump(); ++i) router.turn(now);
  while (const auto frame = there->session().take_control()) {
    CHECK(frame->header.kind == comm::FrameKind::kHeartbeat);
  }
}

}  // namespace
}  // namespace holdfast
