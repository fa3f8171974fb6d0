// How members come to share memory: what one cannot do none does, and whoever is late hears all.
#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/engine/host_area.h"
#include "group/sharing.h"
#include "group/world.h"

namespace holdfast::ft {
namespace {

constexpr CommId kGroup{7};
constexpr Epoch kEpoch{3};

struct Sent {
  MemberId from;
  MemberId to;
  Epoch epoch;
  Bytes payload;
};

// What is between the members: notices in order, and memory that some cannot map.
struct Host {
  std::deque<Sent> under_way;
  std::set<MemberId> without_memory;
  std::set<MemberId> cannot_map;
  int areas = 0;
};

class OneNetwork final : public group::Network {
 public:
  OneNetwork(Host& host, MemberId self) : host_(host), self_(self) {}

  void send(MemberId, const Message&) override {}
  comm::MemberLinks links_to(MemberId) override { return {}; }
  const group::Loss* loss_of(MemberId) const override { return nullptr; }
  Contact contact_of(MemberId, Instant) const override { return {Contact::ContactState::kHeard}; }
  void look_after(MemberId, const std::string&, Instant) override {}
  std::string host_of(const std::string& card) const override { return card; }
  std::string memory_of(const std::string& card) const override { return card; }
  void expect(const Joiner&) override {}
  void say(const std::string&) override {}
  Result<group::OwnArea> make_area() override {
    if (host_.without_memory.contains(self_)) return Status{Code::kSystem, "no memory"};
    return group::OwnArea{std::to_string(++host_.areas), map()};
  }
  std::optional<comm::HostPeer> open_area(MemberId, const std::string& name) override {
    if (name.empty() || host_.cannot_map.contains(self_)) return std::nullopt;
    return map();
  }
  void send(MemberId to, CommId group, Epoch epoch, comm::FrameKind kind,
            const Bytes& payload) override {
    CHECK(group == kGroup);
    CHECK(kind == comm::FrameKind::kArea);
    host_.under_way.push_back({self_, to, epoch, payload});
  }

 private:
  static comm::HostPeer map() {
    comm::HostPeer peer;
    peer.segment =
        std::make_shared<comm::Segment>(std::move(comm::Segment::create_private(4096)).value());
    return peer;
  }

  Host& host_;
  MemberId self_;
};

struct Member {
  Member(Host& host, MemberId self)
      : id(self), network(host, self), sharing(kGroup, self, network) {}
  MemberId id;
  OneNetwork network;
  group::Sharing sharing;
};

class Members {
 public:
  explicit Members(int count) {
    for (int m = 0; m < count; ++m) {
      ids_.push_back(MemberId{static_cast<std::uint64_t>(m) + 1});
      members_.push_back(std::make_unique<Member>(host, ids_.back()));
    }
  }
  group::Sharing& operator[](std::size_t m) { return members_[m]->sharing; }
  void begin(std::size_t m, Epoch epoch = kEpoch) { (*this)[m].begin(epoch, ids_); }
  // Everything that has been said comes; what `deaf` should have heard does not.
  void deliver(std::optional<std::size_t> deaf = {}) {
    while (!host.under_way.empty()) {
      const Sent sent = host.under_way.front();
      host.under_way.pop_front();
      const auto to = static_cast<std::size_t>(sent.to.value - 1);
      if (to != deaf) (*this)[to].hear(sent.from, sent.epoch, sent.payload);
    }
  }
  Host host;

 private:
  std::vector<MemberId> ids_;
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_CASE("members that can map each other's areas share them") {
  Members all(3);
  for (std::size_t m = 0; m < 3; ++m) all.begin(m);
  CHECK_FALSE(all[0].agreed().has_value());
  all.deliver();
  for (std::size_t m = 0; m < 3; ++m) {
    CHECK(all[m].agreed() == group::SharedMemory::kAreas);
    CHECK(all[m].take_areas().size() == 3);
  }
}

TEST_CASE("what one member cannot do none does") {
  for (const bool maps : {false, true}) {
    Members all(3);
    (maps ? all.host.without_memory : all.host.cannot_map).insert(MemberId{2});
    for (std::size_t m = 0; m < 3; ++m) all.begin(m);
    all.deliver();
    for (std::size_t m = 0; m < 3; ++m) {
      CHECK(all[m].agreed() == group::SharedMemory::kNone);
      CHECK(all[m].take_areas().empty());
    }
  }
}

TEST_CASE("who begins late hears what was said before, though it found nobody") {
  Members all(3);
  all.begin(0);
  all.begin(1);
  all.deliver(2);
  CHECK_FALSE(all[0].agreed().has_value());
  CHECK(all[0].awaited().size() == 3);
  all.begin(2);
  all.deliver();
  for (std::size_t m = 0; m < 3; ++m) CHECK(all[m].agreed() == group::SharedMemory::kAreas);
}

TEST_CASE("what comes before the view has begun here is kept for it") {
  Members all(2);
  all.begin(0);
  all.deliver();  // the second member is not there yet
  all.begin(1);
  CHECK(all[1].awaited().size() == 1);
  all.deliver();
  CHECK(all[1].agreed() == group::SharedMemory::kAreas);
}

TEST_CASE("notices of another view, of strangers, or damaged ones change nothing") {
  Members all(2);
  all.begin(0);
  const Bytes verdict = encode(group::AreaNotice{"1", group::SharedMemory::kReach, false});
  all[0].hear(MemberId{9}, kEpoch, verdict);
  all[0].hear(MemberId{2}, {kEpoch.value - 1}, verdict);
  all[0].hear(MemberId{2}, {kEpoch.value + 1}, verdict);
  all[0].hear(MemberId{2}, kEpoch, std::span(verdict).first(verdict.size() - 1));
  CHECK(all[0].awaited().size() == 2);
  CHECK_FALSE(all[0].agreed().has_value());
}

TEST_CASE("a notice survives the wire; anything else is refused") {
  const group::AreaNotice notice{"holdfast.1.2.3.4.flat.5", group::SharedMemory::kAreas, true};
  const Bytes bytes = encode(notice);
  REQUIRE(group::decode_area_notice(bytes).is_ok());
  CHECK(group::decode_area_notice(bytes).value() == notice);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(group::decode_area_notice(std::span(bytes).first(length)).is_ok());
  }
  CHECK_FALSE(group::decode_area_notice(
                  encode(group::AreaNotice{std::string(group::kMaxAreaName + 1, 'x')}))
                  .is_ok());
  Bytes beyond = bytes;
  beyond[beyond.size() - 2] = std::byte{group::kSharedMemoryCount};
  CHECK_FALSE(group::decode_area_notice(beyond).is_ok());
}

}  // namespace
}  // namespace holdfast::ft
