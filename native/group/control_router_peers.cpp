// What a router knows of its peers: which ones are connected, silent, cut off or gone.
#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "group/control_router.h"

namespace holdfast::group {
namespace {

using comm::FrameKind;

constexpr std::size_t kLossesKept = 1024;
// Messages kept for a member that is being called for the first time: a round of a view change has
// fewer for each.
constexpr std::size_t kMostWaiting = 8;

// Puts a new peer among the others, if these are all in the list.
template <class Peer>
void list_peer(std::vector<Peer*>& list, Peer& peer, std::size_t peers) {
  if (list.size() + 1 != peers) return;
  const auto is_before = [](const Peer* one, const Peer& other) { return one->id < other.id; };
  list.insert(std::lower_bound(list.begin(), list.end(), peer, is_before), &peer);
}

}  // namespace

void ControlRouter::add_peer(MemberId id, comm::Link* control, comm::Link* data, Instant now) {
  const auto known = peers_.find(id);
  const bool again = known != peers_.end();
  const bool first = !again || !has_met(known->second);
  // Data that went over the broken connection is lost; a shared-memory link beside it loses
  // nothing.
  const bool data_lost = again && (data == control || data != known->second.data);
  std::vector<ft::Message> waiting;
  if (again) waiting = std::move(known->second.waiting);
  std::erase_if(losses_, [&](const auto& loss) { return loss.first == id; });
  const auto at = peers_.insert_or_assign(id, RoutedPeer(id, timing_.silence, now)).first;
  RoutedPeer& peer = at->second;
  if (!again) list_peer(in_turn_, peer, peers_.size());
  peer.control = control;
  peer.data = data;
  next_silence_ = {};
  each_world([&](const auto& world) {
    if (first && world->membership().is_sparse()) {
      world->on_linked(id);
    } else if (again && world->refers_to(id)) {
      world->on_relinked(id, data_lost, now);
    }
    world->on_connected(id, now);
  });
  for (const ft::Message& message : waiting) send(id, message);
}

// A peer that comes meanwhile has the next turn.
bool ControlRouter::pump_all(Instant now) {
  std::vector<RoutedPeer*> peers = std::exchange(in_turn_, {});
  if (peers.size() != peers_.size()) {
    peers.clear();
    for (auto& [id, peer] : peers_) peers.push_back(&peer);
  }
  bool moved = false;
  for (RoutedPeer* peer : peers) moved = pump(*peer, now) || moved;
  if (peers.size() == peers_.size()) in_turn_ = std::move(peers);
  return moved;
}

bool ControlRouter::is_connected(MemberId peer) const {
  if (peer == self_) return true;
  const auto found = peers_.find(peer);
  return found != peers_.end() && !found->second.cut && !found->second.reported;
}

bool ControlRouter::needs(MemberId peer) const {
  bool needed = false;
  each_world([&](const auto& world) { needed = needed || world->refers_to(peer); });
  return needed;
}

// A world has begun with this member, and this process has no connection to it (any more).
void ControlRouter::look_after(MemberId member, const std::string& card, Instant now) {
  const auto [found, is_new] = peers_.emplace(member, RoutedPeer(member, timing_.silence, now));
  RoutedPeer& peer = found->second;
  if (is_new) list_peer(in_turn_, peer, peers_.size());
  if (!is_new && !peer.reported) return;
  if (is_new) peer.control = peer.data = &nowhere_;
  peer.reported = false;
  peer.cut = true;
  next_silence_ = {};
  if (has_met(peer)) {
    owner_.mend(member, card);
  } else {
    owner_.join(member, card);
  }
}

// Of a sparse world, whose members meet when one has something to say to the other. What is not
// said by the latest messages matters no more.
void ControlRouter::wait_for(MemberId to, const ft::Message& message) {
  std::string card;
  each_world([&](const auto& world) {
    const bool meets = world->membership().is_sparse() && world->view().has(to);
    if (meets) card = ft::card_in(world->view(), to);
  });
  const auto known = peers_.find(to);
  if (card.empty() || (known != peers_.end() && known->second.reported)) return;
  look_after(to, card, last_turn_);
  std::vector<ft::Message>& waiting = peers_.at(to).waiting;
  if (waiting.size() >= kMostWaiting) waiting.erase(waiting.begin());
  waiting.push_back(message);
}

// `heard`: the connection has just brought something.
void ControlRouter::look_for_loss(RoutedPeer& peer, bool heard, Instant now) {
  if (peer.reported) return;
  const Status& status = peer.control->status();
  if (peer.ended && (!heard || peer.cut || !status.is_ok())) {
    report_loss(peer, {Code::kPeerLost, "its process has ended"}, true, now);
  } else if (!status.is_ok() && !peer.cut) {
    cut(peer, status, peer.control->closed_by_peer(), now);
  } else if (!peer.data->status().is_ok() && !peer.cut) {
    // Both links are made anew.
    cut(peer, peer.data->status(), false, now);
  }
}

// A broken connection is no proof of death: network equipment closes connections of living
// processes, too.
void ControlRouter::cut(RoutedPeer& peer, const Status& why, bool from_outside, Instant now) {
  const bool damaged = why.code() == Code::kProtocolError;
  const bool gone =
      peer.left ||
      (from_outside && (owner_.trusts_resets() || is_planted(Planted::kBelieveReset))) ||
      (damaged && is_planted(Planted::kDamageIsDeath)) ||
      (why.code() == Code::kSystem && is_planted(Planted::kOwnClosing));
  if (gone || !needs(peer.id)) return report_loss(peer, why, gone, now);
  peer.cut = true;
  owner_.mend(peer.id, card_of(peer.id));
}

std::string ControlRouter::card_of(MemberId peer) const {
  std::string card;
  each_world([&](const auto& world) {
    std::string here = ft::card_in(world->view(), peer);
    if (!here.empty()) card = std::move(here);
  });
  return card;
}

void ControlRouter::on_process_ended(MemberId peer) {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  found->second.ended = true;
  for (auto& [lost, loss] : losses_) loss.gone = loss.gone || lost == peer;
  // A process's sockets are closed before it has ended.
  if (found->second.reported && service_ != nullptr) ended_late_.push_back(peer);
}

bool ControlRouter::on_refused(MemberId peer) {
  if (owner_.has_secret() && !is_planted(Planted::kBelieveRefusal)) return false;
  on_process_ended(peer);
  return true;
}

// A coordinator forgets connections that have ended.
void ControlRouter::on_witnessed_end(MemberId peer) {
  on_process_ended(peer);
  if (service_ != nullptr) ended_late_.push_back(peer);
}

void ControlRouter::look_for_silence(Instant now) {
  next_silence_ = {Duration::max()};
  for (auto& [id, peer] : peers_) {
    if (peer.reported || peer.silent) continue;
    peer.detector.on_round_trip(Duration(peer.control->measured().round_trip_ns.value()));
    if (!peer.detector.is_silent(now)) {
      next_silence_ = std::min(next_silence_, peer.detector.silent_at());
    } else if (!peer.cut && owner_.is_running_here(id)) {
      next_silence_ = std::min(next_silence_, now + timing_.heartbeat);
    } else {
      peer.silent = true;
      if (service_ != nullptr) service_->on_silent(peer.id, now);
      each_world([&, member = id](const auto& world) { world->on_silent(member, now); });
    }
  }
}

// `gone`: the process has ended, and not only the connection.
void ControlRouter::report_loss(RoutedPeer& peer, const Status& why, bool gone, Instant now) {
  peer.reported = true;
  if (joining_ != nullptr) joining_->on_closed(peer.id);
  if (service_ != nullptr) service_->on_closed(peer.id, peer.ended || peer.left, now);
  const Status text = peer.left ? Status(Code::kPeerLost, "the peer left") : why;
  losses_.emplace_back(peer.id, Loss{text, gone, peer.left});
  if (losses_.size() > kLossesKept) losses_.pop_front();
  each_world([&](const auto& world) {
    if (gone) {
      world->on_closed(peer.id, text, now);
    } else {
      world->on_silent(peer.id, now);
    }
  });
}

std::vector<MemberId> ControlRouter::take_forgotten() {
  std::vector<MemberId> forgotten;
  for (const auto& [id, peer] : peers_) {
    if ((peer.reported || peer.cut) && !needs(id)) forgotten.push_back(id);
  }
  for (const MemberId id : forgotten) peers_.erase(id);
  if (!forgotten.empty()) in_turn_.clear();
  return forgotten;
}

const Loss* ControlRouter::loss_of(MemberId member) const {
  const auto found = std::find_if(losses_.begin(), losses_.end(),
                                  [&](const auto& loss) { return loss.first == member; });
  return found == losses_.end() ? nullptr : &found->second;
}

ft::Contact ControlRouter::contact_of(MemberId member, Instant now) const {
  using State = ft::Contact::ContactState;
  if (member == self_) return {State::kHeard, now};
  const auto at = peers_.find(member);
  if (at != peers_.end() && !at->second.reported) {
    const State there = at->second.cut ? State::kCut : State::kHeard;
    const State state = at->second.silent ? State::kSilent : there;
    return {at->second.left ? State::kLeft : state, at->second.detector.heard()};
  }
  const Loss* loss = loss_of(member);
  if (loss == nullptr) return {};
  if (loss->left) return {State::kLeft};
  return {loss->gone ? State::kGone : State::kCut};
}

// This process has no part in the group any more.
void ControlRouter::answer_closing(RoutedPeer& peer, const comm::FrameHeader& asked) {
  comm::FrameHeader settled;
  settled.kind = FrameKind::kSettled;
  settled.key = asked.key;
  const bool for_others = asked.key.ordinal == static_cast<std::uint32_t>(Ask::kForOthers);
  if (!for_others) settled.key.ordinal = static_cast<std::uint32_t>(Ask::kEnded);
  peer.control->session().send_control(settled, {});
  peer.control->pump();
  owner_.nudge(peer.id);
}

void ControlRouter::say_goodbye() {
  for (auto& [id, peer] : peers_) {
    if (peer.reported || peer.cut) continue;
    peer.control->session().send_control(FrameKind::kGoodbye, {}, {}, {});
    for (int i = 0; i < 16 && peer.control->pump(); ++i) {
    }
  }
}

}  // namespace holdfast::group
