// What a world knows of its members at the moment it is made.
#include "group/world.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "group_parts.h"

namespace holdfast::ft {
namespace {

constexpr CommId kWorld{7};
constexpr MemberId kSelf{1};
constexpr MemberId kOther{2};
constexpr MemberId kLost{3};

struct Sent {
  MemberId to;
  Message message;
};

// Knows of losses, and keeps what is sent.
class KnowingNetwork final : public group::Network {
 public:
  std::map<MemberId, group::Loss> losses;
  std::vector<Sent> sent;
  std::vector<MemberId> looked_after;

  void send(MemberId to, const Message& message) override { sent.push_back({to, message}); }
  comm::MemberLinks links_to(MemberId) override { return {}; }
  const group::Loss* loss_of(MemberId member) const override {
    const auto at = losses.find(member);
    return at == losses.end() ? nullptr : &at->second;
  }
  Contact contact_of(MemberId member, Instant) const override {
    const group::Loss* loss = loss_of(member);
    if (loss == nullptr) return {Contact::ContactState::kHeard};
    return {loss->gone ? Contact::ContactState::kGone : Contact::ContactState::kCut};
  }
  void look_after(MemberId member, const std::string&, Instant) override {
    looked_after.push_back(member);
  }
  std::string host_of(const std::string& card) const override { return card; }
  std::string memory_of(const std::string&) const override { return {}; }
  void expect(const Joiner&) override {}
  void say(const std::string&) override {}
  Result<group::OwnArea> make_area() override { return Status{Code::kSystem, "no memory"}; }
  std::optional<comm::HostPeer> open_area(MemberId, const std::string&) override { return {}; }
  void send(MemberId, CommId, Epoch, comm::FrameKind, const Bytes&) override {}
};

struct Process {
  Process() {
    WorldView view;
    view.epoch = {1};
    view.members = {kSelf, kOther, kLost};
    view.cards = {"a", "b", "c"};
    world = std::make_shared<group::World>(
        kWorld, Membership(kWorld, "job", kSelf, view, MembershipSettings{}), network);
    group::GroupConfig config;
    config.id = kWorld;
    config.name = "job";
    config.rank = {0};
    config.members = world->view().members;
    config.world_ranks = {{0}, {1}, {2}};
    config.epoch = world->view().epoch;
    config.timeout = std::chrono::seconds(5);
    group = std::make_shared<group::Group>(std::move(config), world, executor, clock);
  }
  KnowingNetwork network;
  std::shared_ptr<comm::Executor> executor = std::make_shared<testing::AtOnce>();
  std::shared_ptr<const Clock> clock = std::make_shared<testing::SetClock>();
  std::shared_ptr<group::World> world;
  std::shared_ptr<group::Group> group;
};

TEST_CASE("a member that went before the world was made is missed from the start") {
  Process process;
  process.network.losses[kLost] = {Status{Code::kPeerLost, "killed"}, true, false};
  process.world->add(process.group, process.clock->now());
  CHECK(process.world->is_changing());
  CHECK(process.world->membership().is_suspect(kLost));
  CHECK_FALSE(process.world->membership().is_suspect(kOther));
  REQUIRE(!process.network.sent.empty());
  CHECK(process.network.sent.front().to == kOther);
}

TEST_CASE("a member whose connection broke before the world was made is looked after") {
  Process process;
  process.network.losses[kLost] = {Status{Code::kPeerLost, "reset"}, false, false};
  process.world->add(process.group, process.clock->now());
  CHECK_FALSE(process.world->is_changing());
  CHECK(process.network.looked_after == std::vector<MemberId>{kLost});
}

TEST_CASE("a world whose members are all there begins in peace") {
  Process process;
  process.world->add(process.group, process.clock->now());
  CHECK_FALSE(process.world->is_changing());
  CHECK(process.network.sent.empty());
}

}  // namespace
}  // namespace holdfast::ft
