// How a runtime reaches members that it cannot call, or that cannot call it: a relay carries the
// connection until there is a direct way. Why: docs/decisions/0169-who-cannot-be-called-calls.md
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "base/forks.h"
#include "runtime/relay/relay_address.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

// Between two looks at what may be due.
constexpr Duration kReachLook = std::chrono::milliseconds(100);
// Direct calls have this long before a relay is asked, too: less to a member that is known to be
// behind something.
constexpr Duration kDirectTime = std::chrono::seconds(1);
constexpr Duration kHopelessTime = std::chrono::milliseconds(200);
// A relay that did not connect the two is asked again.
constexpr Duration kRelayPause = std::chrono::seconds(1);
// A relayed pair is called directly as often as this: a way that opens is taken within 5 s.
constexpr Duration kDirectPause = std::chrono::seconds(3);
constexpr Duration kTryTime = std::chrono::seconds(2);
constexpr std::size_t kMostTries = 256;
// A peer of which nothing comes for so long, five heartbeats or more, is called again.
constexpr Duration kMuteTime = std::chrono::seconds(2);
constexpr int kMuteBeats = 5;
// For the greetings over a connection that a relay has made.
constexpr Duration kCrossingTime = std::chrono::seconds(10);
// For a relay to call back, and for a process to hear that none is of any use.
constexpr Duration kReachTime = std::chrono::seconds(2);

bool is_inside(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::vector<Endpoint> relay_endpoints(const std::vector<HostSearch>& hosts) {
  std::vector<Endpoint> all;
  for (const HostSearch& host : hosts) {
    for (const Endpoint& at : host.endpoints()) all.push_back(at);
  }
  return all;
}

Result<std::vector<std::string>> resolve_relay(const std::string& host) {
  auto found = resolve_coordinator(host);
  if (found.is_ok()) return found;
  return Status{
      Code::kConfigError,
      "relay \"" + host + "\" has no address that can be found (option relay: host:port)"};
}

}  // namespace

void Peer::set_relayed(bool relays) {
  if (relayed && !relays) control->count_way_out_of_relay();
  relayed = relays;
  control->show_relayed(relays);
}

// A coordinator is a relay; a member has one where it has a secret or a token.
Status Runtime::start_reach(Doorman::Rules& rules) {
  if (parts_.gatekeeper) {
    RelayServer::RelayRules own;
    own.gate = parts_.gatekeeper->relay_gate();
    own.audit = parts_.audit;
    auto server = RelayServer::start(std::move(own));
    if (!server.is_ok()) return server.status();
    parts_.relay = std::move(server).value();
    rules.relay = [this](int fd) { parts_.relay->adopt(fd); };
    return Status::ok();
  }
  if (parts_.service != nullptr) return Status::ok();
  const std::string& named = parts_.options.relay;
  const bool locked = parts_.sealer && parts_.sealer->token().is_ok();
  if (!named.empty() && !locked) {
    return {Code::kConfigError,
            "option relay = " + named + (parts_.sealer ? " beside a certificate" : "") +
                ", without a secret and a token; accepted: together with option secret_file (" +
                "`holdfast secret FILE` makes one) or a token, for a relay connects only whom it "
                "knows by these"};
  }
  if (!locked) return Status::ok();
  if (!named.empty()) {
    auto hosts = parse_relays(named);
    if (!hosts.is_ok()) return hosts.status();
    for (const CoordinatorHost& at : hosts.value()) {
      parts_.relays.emplace_back(at.host, at.port, resolve_relay);
      parts_.relays.back().await();
    }
    const auto is_found = [](const HostSearch& host) { return !host.endpoints().empty(); };
    if (std::ranges::none_of(parts_.relays, is_found)) return parts_.relays.front().failure();
  }
  const std::vector<Endpoint> relays =
      relay_endpoints(named.empty() ? parts_.hosts : parts_.relays);
  // Who meets at loopback is on one host.
  const bool inside =
      std::ranges::all_of(relays, [](const Endpoint& at) { return is_inside(at.address); });
  if (named.empty() && inside) return Status::ok();
  const Card card = own_card();
  auto reach = RelayClient::start({parts_.self, parts_.port, card.addresses, parts_.sealer},
                                  [this] { interrupt(); });
  if (!reach.is_ok()) return reach.status();
  relay_client_ = std::move(reach).value();
  relay_client_->set_relays(relays);
  rules.knock = [this](std::span<const std::byte> said) { return relay_client_->hear_knock(said); };
  return Status::ok();
}

Status Runtime::await_reach() {
  if (!relay_client_) return Status::ok();
  // Once: a relay that does not answer delays no second group. relaxed: alone.
  const bool again = has_awaited_reach_.exchange(true, std::memory_order_relaxed);
  const Status found = relay_client_->await_called(again ? Duration{} : kReachTime);
  if (found.is_ok() || parts_.options.relay.empty()) return Status::ok();
  return {found.code(), found.message() + " (option relay)"};
}

// A newcomer that calls this process, too, is answered: of two calls one stands.
void Runtime::expect(const ft::Joiner& joiner) {
  if (relay_client_) want(joiner);
}

void Runtime::step_reach(Instant now) {
  next_reach_ = now + kReachLook;
  look_for_relays(now);
  take_crossings(now);
  look_for_mute(now);
  call_by_relays(now);
  look_at_tries(now);
  try_directly(now);
  const Status trouble = relay_client_->take_trouble();
  const bool named = !parts_.options.relay.empty();
  if (named ? !trouble.is_ok() : trouble.code() == Code::kConfigError) {
    say(trouble.message() +
        ". Ranks that cannot call each other do not reach each other until one "
        "of the relays connects them (option relay)");
  }
}

// Where the coordinator is the relay, it has moved.
void Runtime::move_relays() {
  if (relay_client_ && parts_.options.relay.empty()) {
    relay_client_->set_relays(relay_endpoints(parts_.hosts));
  }
}

void Runtime::look_for_relays(Instant now) {
  bool moved = false;
  for (HostSearch& host : parts_.relays) {
    if (host.endpoints().empty()) host.look(now);
    moved = host.take() || moved;
  }
  if (moved) relay_client_->set_relays(relay_endpoints(parts_.relays));
}

// A way between two may fail and tell nobody. Who says nothing for a while is called again, beside
// its link: if something comes over that after all, it stands.
void Runtime::look_for_mute(Instant now) {
  const Duration limit = std::max<Duration>(kMuteTime, kMuteBeats * parts_.options.heartbeat);
  // Nothing was heard while this process stood still.
  const bool stood_still = now - last_mute_look_ > kMuteTime / 2;
  last_mute_look_ = now;
  for (const auto& [id, peer] : peers_) {
    const std::uint64_t heard = peer->control->received();
    const bool speaks = heard != peer->heard || stood_still || peer->heard_at == Instant{};
    if (speaks) {
      peer->heard = heard;
      peer->heard_at = now;
    }
    if (speaks && std::exchange(peer->mute, false)) {
      attempts_.erase(id);
      drop_calls(id);
    }
    if (speaks || now - peer->heard_at < limit || peer->mute) continue;
    if (is_coordinator(id) || attempts_.contains(id) || !router_.needs(id)) continue;
    if (!is_running_here(id)) call_beside(*peer, now);
  }
}

// Calls the peer beside its link, and through a relay from `relay_at` on (0: as any other).
void Runtime::call_beside(Peer& peer, Instant relay_at) {
  if (peer.mute || attempts_.contains(peer.id)) return;
  const auto card = parse_card(router_.card_of(peer.id));
  if (!card.is_ok()) return;
  peer.mute = true;
  Attempt attempt{card.value(), 0, Instant{Duration::max()}, parts_.clock->now(), 0, true};
  attempt.relay_at = relay_at;
  attempts_.emplace(peer.id, std::move(attempt));
}

// The member with the larger id calls through a relay, where the other one is registered: both have
// an attempt.
void Runtime::call_by_relays(Instant now) {
  bool hurried = false;
  for (auto& [id, attempt] : attempts_) {
    if (is_coordinator(id)) continue;
    if (attempt.relay_at == Instant{}) {
      const Peer* peer = find_peer(id);
      const bool hopeless =
          attempt.card.called == CalledBy::kByRelay || (peer != nullptr && peer->relayed);
      attempt.relay_at = now + (hopeless ? kHopelessTime : kDirectTime);
    }
    hurried = true;
    if (now < attempt.relay_at || now >= attempt.deadline) continue;
    if (parts_.self > id) relay_client_->call(id);
    attempt.relay_at = now + kRelayPause;
  }
  bool needed = hurried;
  for (const auto& [id, peer] : peers_) needed = needed || peer->relayed;
  relay_client_->set_needed(needed, hurried);
}

void Runtime::take_crossings(Instant now) {
  for (const Crossing& crossing : relay_client_->take()) {
    // Who calls is heard where others are that call.
    if (!crossing.is_caller) {
      doorman_->admit(crossing.fd);
      continue;
    }
    const auto attempt = attempts_.find(crossing.peer);
    auto seal = attempt == attempts_.end() ? Status{Code::kAborted, "not called any more"}
                                           : parts_.sealer->call(crossing.peer);
    if (!seal.is_ok()) {
      close_unforked(crossing.fd);
      continue;
    }
    auto handshake =
        std::make_unique<Handshake>(crossing.fd, crossing.relay, hello_to(attempt->second.card),
                                    now + kCrossingTime, std::move(seal).value());
    handshake->set_relayed();
    begin_call(std::move(handshake));
  }
}

// Members that are reached through a relay are called at all their addresses.
void Runtime::try_directly(Instant now) {
  for (const auto& [id, peer] : peers_) {
    if (!peer->relayed) continue;
    if (peer->next_direct == Instant{}) peer->next_direct = now + kDirectPause;
    if (now < peer->next_direct) continue;
    peer->next_direct = now + kDirectPause;
    const auto card = parse_card(router_.card_of(id));
    if (!card.is_ok() || card.value().member != id) continue;
    for (const std::string& address : card.value().addresses) {
      if (tries_.size() >= kMostTries) return;
      const Endpoint at{address, card.value().port};
      auto fd = start_connect(at);
      if (fd.is_ok()) tries_.push_back({fd.value(), id, at, now + kTryTime});
    }
  }
}

// A call that has been taken becomes a handshake; who answered is not known before that.
void Runtime::look_at_tries(Instant now) {
  std::erase_if(tries_, [&](const DirectTry& each) {
    const Peer* peer = find_peer(each.peer);
    const bool over = now >= each.deadline || peer == nullptr || !peer->relayed;
    pollfd look{each.fd, POLLOUT, 0};
    const bool known = !over && ::poll(&look, 1, 0) > 0;
    if (!over && !known) return false;
    const bool taken = known && connect_outcome(each.fd, each.at).is_ok();
    const auto card = parse_card(taken ? router_.card_of(each.peer) : std::string());
    auto seal = card.is_ok() ? parts_.sealer->call(each.peer) : card.status();
    if (!seal.is_ok()) {
      close_unforked(each.fd);
      return true;
    }
    begin_call(std::make_unique<Handshake>(each.fd, each.at, hello_to(card.value()), now + kTryTime,
                                           std::move(seal).value()));
    return true;
  });
}

// Where one of several calls to a member has come through, the others are given up.
void Runtime::keep_one_call(const Handshake& kept) {
  const MemberId peer = kept.peer().from;
  for (const auto& other : handshakes_) {
    const bool beside = other.get() != &kept && other->is_caller() && other->hello().to == peer;
    if (beside) other->withdraw();
  }
}

}  // namespace holdfast::runtime
