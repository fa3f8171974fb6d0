// A world's network for tests: knows everybody, says nothing, and counts what it is given.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/engine/host_area.h"
#include "group/network.h"

namespace holdfast::ft {

inline comm::HostPeer make_peer() {
  comm::HostPeer peer;
  peer.segment =
      std::make_shared<comm::Segment>(std::move(comm::Segment::create_private(4096)).value());
  return peer;
}

class QuietNetwork : public group::Network {
 public:
  void send(MemberId, const Message&) override {}
  comm::MemberLinks links_to(MemberId) override { return {}; }
  const group::Loss* loss_of(MemberId member) const override {
    const auto at = losses.find(member);
    return at == losses.end() ? nullptr : &at->second;
  }
  Contact contact_of(MemberId, Instant) const override { return {Contact::ContactState::kHeard}; }
  void look_after(MemberId, const std::string&, Instant) override {}
  // Cards are "host/memory"; without memory, they share none.
  std::string host_of(const std::string& card) const override {
    return card.substr(0, card.find('/'));
  }
  std::string memory_of(const std::string& card) const override {
    const auto at = card.find('/');
    return at == std::string::npos ? "" : card.substr(at + 1);
  }
  void expect(const Joiner&) override {}
  void say(const std::string& text) override { said.push_back(text); }
  Result<group::OwnArea> make_area() override { return group::OwnArea{"own", make_peer()}; }
  std::optional<comm::HostPeer> open_area(MemberId, const std::string&) override {
    return make_peer();
  }
  void send(MemberId, CommId, Epoch, comm::FrameKind, const Bytes&) override { ++sent; }

  std::map<MemberId, group::Loss> losses;
  std::vector<std::string> said;
  int sent = 0;
};

}  // namespace holdfast::ft
