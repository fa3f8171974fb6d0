// Lanes: how a runtime keeps the trunks to its peers in connections. A lane that is lost or has
// stalled is called again beside the others, because TCP's own timer doubles through an outage.
#include <sys/epoll.h>

#include <algorithm>

#include "base/patience.h"
#include "comm/transport/trunk/lane_calls.h"
#include "comm/transport/trunk/trunk_link.h"
#include "runtime/rendezvous/member_id.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

// A link keeps its kind for as long as anything refers to it.
void Runtime::offer_trunk(Greeting& hello, bool same_host) {
  const std::string& wanted = parts_.options.trunk;
  const Peer* known = find_peer(hello.to);
  const bool is_trunk = known != nullptr && known->control->trunk() != nullptr;
  if (known != nullptr ? !is_trunk : wanted == "off" || (same_host && wanted != "on")) return;
  hello.lanes = static_cast<std::uint8_t>(parts_.options.lanes);
  hello.trunk = random_number();
  hello.far = is_trunk || wanted == "on";
}

void Runtime::settle_trunk(const Greeting& hello, Greeting& welcome) {
  const std::string& wanted = parts_.options.trunk;
  const Peer* known = find_peer(hello.from);
  const bool is_trunk = known != nullptr && known->control->trunk() != nullptr;
  const bool worth = wanted == "on" || (wanted == "auto" && hello.far);
  if (known != nullptr ? !is_trunk : !worth) return;
  welcome.lanes = std::min(hello.lanes, static_cast<std::uint8_t>(parts_.options.lanes));
}

bool Runtime::has_trunk(const Handshake& call) {
  const Greeting& hello = call.peer();
  const Peer* peer = find_peer(hello.from);
  const comm::TrunkLink* trunk = peer == nullptr ? nullptr : peer->control->trunk();
  if (trunk == nullptr || !trunk->status().is_ok() || trunk->terms().id != hello.trunk) {
    return false;
  }
  if (!has_secret()) return true;
  return peer->trunk_key && call.has_proven_lane(*peer->trunk_key);
}

// Whatever connection is made to a peer whose trunk stands is a further lane of it.
std::optional<Greeting> Runtime::hello_of_lane(MemberId callee) {
  const Peer* peer = find_peer(callee);
  const comm::TrunkLink* trunk = peer == nullptr ? nullptr : peer->control->trunk();
  if (trunk == nullptr || !trunk->status().is_ok() || !router_.is_connected(callee)) {
    return std::nullopt;
  }
  Greeting hello{parts_.self, callee, parts_.process, false, {}};
  hello.lanes = static_cast<std::uint8_t>(trunk->terms().lanes);
  hello.trunk = trunk->terms().id;
  hello.joins = true;
  return hello;
}

void Runtime::note_call(Peer& peer, const Handshake& handshake, Result<secure::Secret> key) {
  peer.trunk_key.reset();
  if (key.is_ok()) peer.trunk_key = std::move(key).value();
  has_trunks_ = has_trunks_ || peer.control->trunk() != nullptr;
  peer.is_caller = handshake.is_caller();
  if (peer.is_caller) peer.called = handshake.endpoint();
  peer.next_look = peer.next_lane = next_tend_ = {};
}

// Of either side, once both have greeted. A caller whose trunk the other one no longer has calls
// anew, as after any break.
void Runtime::join_trunk(Handshake& handshake) {
  Peer* peer = find_peer(handshake.peer().from);
  comm::TrunkLink* trunk = peer == nullptr ? nullptr : peer->control->trunk();
  const Greeting& hello = handshake.is_caller() ? handshake.hello() : handshake.peer();
  if (trunk == nullptr || trunk->terms().id != hello.trunk || !trunk->status().is_ok()) return;
  if (!handshake.joins()) {
    if (handshake.is_caller()) {
      peer->control->sever({Code::kPeerLost, "the peer no longer has this trunk"});
    }
    return;
  }
  comm::Connection connection = handshake.take_connection();
  unwatch(connection.fd);
  if (!connection.relayed) {
    peer->address = peer_address(connection.fd);
    if (is_same_host(connection.fd)) do_not_pace(connection.fd);
  }
  trunk->join(std::move(connection));
  peer->set_relayed(trunk->is_relayed());
  peer->mute = false;
  peer->heard_at = parts_.clock->now();  // it has time to say something over that
  attempts_.erase(peer->id);
  peer->next_look = peer->next_lane = next_tend_ = {};
}

void Runtime::tend_trunks(Instant now) {
  bool due = now >= next_tend_;
  for (const auto& [id, peer] : peers_) {
    const comm::TrunkLink* trunk = peer->control->trunk();
    due = due || (trunk != nullptr && trunk->is_down() && now >= peer->next_lane);
  }
  if (!due) return;
  next_tend_ = now + parts_.options.heartbeat;
  for (const auto& [id, peer] : peers_) {
    comm::TrunkLink* trunk = peer->control->trunk();
    if (trunk == nullptr || !trunk->status().is_ok() || !router_.is_connected(id)) continue;
    tend(*peer, *trunk, now);
    const Instant next = trunk->is_down() ? peer->next_lane : peer->next_look;
    next_tend_ = std::min(next_tend_, next);
  }
}

void Runtime::tend(Peer& peer, comm::TrunkLink& trunk, Instant now) {
  if (now >= peer.next_look) {
    trunk.look(now);
    if (peer.is_caller) trunk.trim(now);
    peer.next_look = now + (trunk.busy() ? comm::kLookPause : parts_.options.heartbeat);
  }
  if (trunk.is_down() && !router_.needs(peer.id)) {
    return trunk.sever({Code::kPeerLost, "all its connections broke"});
  }
  if (trunk.is_down() && relay_client_) call_beside(peer, {});
  if (now < peer.next_lane) return;
  const comm::LaneCaller caller{peer.is_caller, peer.relayed, lanes_called(peer.id)};
  for (std::size_t calls = comm::lanes_to_call(trunk, caller); calls > 0; --calls) {
    call_lane(peer, now);
  }
}

std::size_t Runtime::lanes_called(MemberId callee) const {
  return static_cast<std::size_t>(std::ranges::count_if(handshakes_, [&](const auto& handshake) {
    return handshake->is_caller() && handshake->hello().joins && handshake->hello().to == callee;
  }));
}

// Where the peer is known to be comes first, then all addresses of its card in turn.
std::optional<Endpoint> Runtime::lane_endpoint(Peer& peer) {
  const auto card = parse_card(router_.card_of(peer.id));
  if (!card.is_ok()) {
    return peer.is_caller ? std::optional(peer.called) : std::nullopt;
  }
  const std::vector<std::string>& addresses = card.value().addresses;
  const std::size_t turn = peer.next_address++ % (addresses.size() + 1);
  const bool known = std::ranges::find(addresses, peer.address) != addresses.end();
  if (turn == 0 && known) return Endpoint{peer.address, card.value().port};
  if (addresses.empty()) return std::nullopt;
  return Endpoint{addresses[(turn + addresses.size() - 1) % addresses.size()], card.value().port};
}

void Runtime::call_lane(Peer& peer, Instant now) {
  peer.next_lane = now + comm::kLanePause;
  const auto to = lane_endpoint(peer);
  if (!to) return;
  const auto hello = hello_of_lane(peer.id);
  if (!hello) return;
  std::unique_ptr<TlsSeal> seal;
  if (parts_.sealer) {
    auto made = parts_.sealer->call(peer.id);
    if (!made.is_ok()) return;
    seal = std::move(made).value();
  }
  auto fd = start_connect(*to);
  if (!fd.is_ok()) return note_lane_failure(peer.id, *to, fd.status());
  const Duration round_trip = peer.control->trunk()->round_trip();
  const Instant deadline = now + patience(comm::kLaneTime, round_trip);
  begin_call(std::make_unique<Handshake>(fd.value(), *to, *hello, deadline, std::move(seal)));
}

// Nobody listens where the peer was: without a secret that proves its end, as for any call.
void Runtime::note_lane_failure(MemberId callee, const Endpoint& at, const Status& why) {
  const Peer* peer = find_peer(callee);
  const comm::TrunkLink* trunk = peer == nullptr ? nullptr : peer->control->trunk();
  if (trunk == nullptr || !trunk->is_down()) return;
  const bool refused = why.code() == Code::kPeerLost;
  if (refused && at.address == peer->address) router_.on_refused(callee);
}

}  // namespace holdfast::runtime
