// Mending: a connection broke between two processes that may both live, so both call again. Which
// of the two called first does not matter, for the network between them may let only one of the
// calls through.
#include <sys/epoll.h>

#include <algorithm>

#include "comm/transport/trunk/trunk_link.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {
namespace {

constexpr Duration kPauseAfterFailure = std::chrono::milliseconds(50);
// A connection that breaks soon, again and again, is made anew less and less often. One that has
// held for a second is called again at once, which takes milliseconds.
constexpr Duration kFlapping = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::seconds(1);
constexpr int kFreeCuts = 3;
// How long a process leaves it to the one of the larger id to call first, where they have not met.
constexpr Duration kOtherCalls = std::chrono::milliseconds(50);

}  // namespace

bool Runtime::trusts_resets() const { return parts_.options.trust_resets == ResetTrust::kLan; }

bool Runtime::is_running_here(MemberId id) const {
  const auto found = peers_.find(id);
  // Between network namespaces of one host a cable can be cut, too.
  return found != peers_.end() && found->second->same_host && found->second->process.is_running();
}

void Runtime::mend(MemberId id, const std::string& card_text) {
  const Instant now = parts_.clock->now();
  Duration pause{};
  std::string address;
  if (Peer* peer = find_peer(id)) {
    address = peer->address;
    if (peer->control->fd() >= 0) unwatch(peer->control->fd());
    peer->control->sever({Code::kPeerLost, "the connection broke"});
    peer->cuts = now - peer->last_cut < kFlapping ? peer->cuts + 1 : 0;
    peer->last_cut = now;
    if (peer->cuts > kFreeCuts) {
      pause = std::min<Duration>(kPauseAfterFailure * (1 << std::min(peer->cuts - kFreeCuts, 8)),
                                 kLongestPause);
    }
  }
  const auto card = parse_card(card_text);
  if (!card.is_ok()) return;
  const auto& addresses = card.value().addresses;
  const bool vouched = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
  attempts_.insert_or_assign(id, Attempt{card.value(), 0, Instant{Duration::max()}, now + pause, 0,
                                         true, vouched ? address : std::string{}});
}

void Runtime::join(MemberId id, const std::string& card_text) {
  const auto card = parse_card(card_text);
  if (!card.is_ok() || attempts_.contains(id)) return;
  // An op makes both want the connection.
  const bool first = parts_.self > id || calls_all();
  Attempt attempt;
  attempt.card = card.value();
  attempt.deadline = Instant{Duration::max()};
  attempt.not_before = parts_.clock->now() + (first ? Duration::zero() : kOtherCalls);
  attempt.mends = true;
  attempt.is_first = true;
  attempts_.emplace(id, std::move(attempt));
}

void Runtime::note_failure(MemberId callee, const Endpoint& at, const Status& why, Instant now) {
  connect_failures_[callee] = why;
  if (is_coordinator(callee)) parts_.search.on_failure(at, why, now);
  const auto found = attempts_.find(callee);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  attempt.not_before = is_coordinator(callee) ? parts_.search.due() : now + kPauseAfterFailure;
  const bool refused = why.code() == Code::kPeerLost;
  attempt.refusals = refused ? attempt.refusals + 1 : 0;
  // Nobody listens at any address of a process of this host.
  const bool nowhere = attempt.is_first && attempt.card.host == parts_.host &&
                       attempt.refusals >= attempt.card.addresses.size();
  if (!refused || !attempt.mends || (at.address != attempt.vouched && !nowhere)) return;
  if (router_.on_refused(callee)) attempts_.erase(found);
}

bool Runtime::keeps_data(MemberId id) {
  const Peer* peer = find_peer(id);
  return peer != nullptr && (!peer->path || peer->path->link().status().is_ok());
}

// Where two processes call each other, the call of the one with the larger id stands.
bool Runtime::gives_way_to(const Greeting& hello) const {
  if (hello.from > parts_.self) return true;
  return std::none_of(handshakes_.begin(), handshakes_.end(), [&](const auto& handshake) {
    return handshake->is_caller() && !handshake->hello().joins &&
           handshake->hello().to == hello.from && handshake->is_connected();
  });
}

void Runtime::drop_calls(MemberId callee) {
  for (const auto& handshake : handshakes_) {
    const bool calls = handshake->is_caller() && !handshake->hello().joins;
    if (calls && handshake->hello().to == callee) {
      handshake->withdraw();
    }
  }
}

// Gives the peer's links the new connection; all users of the links go on with them.
void Runtime::renew(Peer& peer, Handshake& handshake) {
  comm::TrunkLink* trunk = peer.control->trunk();
  // Both know what the link is, so what they have agreed on is the same.
  if ((handshake.terms().lanes > 0) != (trunk != nullptr)) return;
  auto key = handshake.export_key();
  comm::Connection connection = handshake.take_connection();
  const int fd = connection.fd;
  unwatch(fd);
  if (peer.control->fd() >= 0) unwatch(peer.control->fd());
  if (trunk != nullptr) trunk->set_terms(handshake.terms());
  peer.control->renew(std::move(connection));
  note_call(peer, handshake, std::move(key));
  peer.set_relayed(handshake.is_relayed());
  peer.mute = false;
  peer.address = peer_address(fd);
  if (is_same_host(fd)) do_not_pace(fd);
  watch(peer.control->fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, peer.of_link);
  attempts_.erase(peer.id);
  connect_failures_.erase(peer.id);
  if (handshake.keeps()) {
    parts_.paths.forget(peer.id);
  } else {
    // Users of the old path drop it in the next view.
    peer.old_paths.push_back(std::move(peer.path));
    peer.path =
        parts_.paths.make(peer.id, handshake.peer().offers, handshake.is_caller(), *peer.control);
    if (!peer.shares_memory()) sockets_matter_ = true;
  }
  router_.add_peer(peer.id, peer.control.get(), &peer.data(), parts_.clock->now());
}

// Ends the calls to peers that no world here needs any more.
void Runtime::end_mending() {
  std::erase_if(attempts_, [this](const auto& attempt) {
    return attempt.second.mends && !router_.needs(attempt.first);
  });
}

}  // namespace holdfast::runtime
