#include "group/control_router.h"

#include <algorithm>

#include "base/planted.h"

namespace holdfast::group {
namespace {

using comm::FrameKind;

// Early frames take at most this much memory, or are one message; beyond it the oldest is dropped,
// which is the likeliest to be for no group.
constexpr std::size_t kMaxEarlyBytes = 8U << 20;
constexpr std::size_t kEarlyEntryBytes = 1024;  // upper bound of an entry without its payload
// A peer sends one frame for each call that waits long; a few tell as much as all.
constexpr std::size_t kMaxEarlyCalls = 64;
// Parts of membership messages of peers that this process has nothing to do with yet: the longest
// is a member's greeting to a coordinator that was started anew.
constexpr std::size_t kMaxParkedBytes = 8U << 20;
// Groups that this process has left, and about which others may still ask it.
constexpr std::size_t kEndedKept = 4096;
// An early frame that nothing has claimed by then is for a group that has ended here.
constexpr Duration kEarlyTime = std::chrono::seconds(60);

}  // namespace

bool ControlRouter::turn(Instant now) {
  bool moved = pump_all(now);
  if (now >= next_beat_) beat(now);
  if (now >= next_silence_) look_for_silence(now);
  last_turn_ = now;
  if (joining_ != nullptr) step_joining(now);
  if (service_ != nullptr) step_service(now);
  std::erase_if(worlds_, [](const auto& weak) { return weak.expired(); });
  changing_ = joining_ != nullptr;
  std::uint64_t epochs = 0;
  each_world([&](const auto& world) {
    moved = world->progress(now) || moved;
    changing_ = changing_ || world->is_changing();
    epochs += world->view().epoch.value;
  });
  if (std::exchange(epochs_, epochs) != epochs) has_begun_ = true;
  return moved;
}

comm::MemoryPoll ControlRouter::poll_memory() {
  comm::MemoryPoll all{false, joining_ == nullptr && service_ == nullptr};
  each_world([&](const auto& world) {
    const comm::MemoryPoll poll = world->poll_memory();
    all = {all.moved || poll.moved, all.enough && poll.enough};
  });
  return all;
}

bool ControlRouter::busy() const {
  bool busy = joining_ != nullptr;
  each_world([&](const auto& world) { busy = busy || world->busy(); });
  return busy;
}

bool ControlRouter::awaits_mail() const {
  bool awaits = false;
  each_world([&](const auto& world) { awaits = awaits || world->awaits_mail(); });
  return awaits;
}

bool ControlRouter::moves_bulk() const {
  bool bulk = false;
  each_world([&](const auto& world) { bulk = bulk || world->moves_bulk(); });
  return bulk;
}

Instant ControlRouter::next_deadline() const {
  Instant next = std::min(next_beat_, next_silence_);
  if (service_ != nullptr) next = std::min(next, service_->next_tick());
  each_world([&](const auto& world) { next = std::min(next, world->next_deadline()); });
  return next;
}

bool ControlRouter::pump(RoutedPeer& peer, Instant now) {
  if (peer.reported) return false;
  if (peer.cut) {
    look_for_loss(peer, false, now);
    return false;
  }
  bool moved = peer.control->pump();
  if (peer.data != peer.control) moved = peer.data->pump() || moved;
  const bool heard = peer.control->received() != peer.received;
  if (heard) {
    peer.received = peer.control->received();
    peer.detector.on_frame(now);
    if (peer.silent) {
      peer.silent = false;
      if (service_ != nullptr) service_->on_heard(peer.id);
      each_world([&](const auto& world) { world->on_heard(peer.id, now); });
    }
  }
  take_controls(peer, now);
  look_for_loss(peer, heard, now);
  return moved;
}

void ControlRouter::take_controls(RoutedPeer& peer, Instant now) {
  while (!peer.reported) {
    auto frame = peer.control->session().take_control();
    if (!frame) return;
    const FrameKind kind = frame->header.kind;
    if (kind == FrameKind::kHeartbeat) {
      if (!frame->payload.empty()) owner_.hear_news(peer.id, frame->payload, now);
    } else if (kind == FrameKind::kMembership) {
      const Status sound = take_part(peer, *frame, now);
      if (!sound.is_ok()) return cut(peer, sound, false, now);
    } else if (kind == FrameKind::kGoodbye && frame->header.key.comm == CommId{}) {
      peer.left = true;
      each_world([&](const auto& world) { world->on_goodbye(peer.id, {}, now); });
    } else {
      EarlyControl early{peer.id, now, std::move(*frame), {}};
      const comm::FrameHeader& header = early.frame.header;
      if (deliver(early, now)) continue;
      if (!has_ended(header.key.comm)) {
        keep_early(std::move(early));
      } else if (kind == FrameKind::kClosing) {
        answer_closing(peer, header);
      }
    }
  }
}

// Membership messages may be longer than a frame.
Status ControlRouter::take_part(RoutedPeer& peer, comm::ControlFrame& frame, Instant now) {
  const comm::FrameHeader& header = frame.header;
  // All parts but the last are as long as a frame may be.
  const std::uint64_t due =
      std::min<std::uint64_t>(comm::kMaxFramePayload, header.total_bytes - header.offset);
  if (header.offset != peer.incoming_bytes || header.total_bytes > ft::kMaxMessageBytes ||
      frame.payload.empty() || frame.payload.size() != due) {
    return {Code::kProtocolError, "parts of a membership message out of order"};
  }
  if (peer.incoming.empty()) peer.incoming_since = now;
  peer.incoming_bytes += frame.payload.size();
  peer.incoming.push_back(std::move(frame.payload));
  if (peer.incoming_bytes < header.total_bytes) {
    limit_parked(now);
    return Status::ok();
  }
  ft::Bytes whole = std::move(peer.incoming.front());
  whole.reserve(peer.incoming_bytes);
  for (std::size_t i = 1; i < peer.incoming.size(); ++i) {
    whole.insert(whole.end(), peer.incoming[i].begin(), peer.incoming[i].end());
  }
  peer.forget_incoming();
  auto message = ft::decode(whole);
  if (!message.is_ok()) return message.status();
  if (deliver(peer.id, message.value(), now)) return Status::ok();
  if (has_ended(message.value().world)) {
    // The goodbye may have been lost with a connection.
    send(peer.id, message.value().world, {}, FrameKind::kGoodbye, {});
  } else {
    keep_early({peer.id, now, {}, std::move(message).value()});
  }
  return Status::ok();
}

// Whether this process has to do with the peer already.
bool ControlRouter::is_known(MemberId peer) const {
  return needs(peer) || (service_ != nullptr && service_->knows(peer)) ||
         (joining_ != nullptr && joining_->is_member(peer));
}

// Of the peers that this process has nothing to do with yet, the one whose message has been coming
// for longest gives way when they have too much lying here.
void ControlRouter::limit_parked(Instant now) {
  std::size_t parked = 0;
  RoutedPeer* oldest = nullptr;
  for (auto& [id, peer] : peers_) {
    if (peer.incoming.empty() || is_known(id)) continue;
    parked += peer.incoming_bytes;
    if (oldest == nullptr || peer.incoming_since < oldest->incoming_since) oldest = &peer;
  }
  if (parked <= kMaxParkedBytes) return;
  oldest->forget_incoming();
  cut(*oldest,
      {Code::kProtocolError, "a process that is in no world of this one sends long messages"},
      false, now);
}

void ControlRouter::note_ended(CommId group) {
  ended_groups_.push_back(group);
  if (ended_groups_.size() > kEndedKept) ended_groups_.pop_front();
}

// The world may be one that this process has left before, with its groups.
void ControlRouter::set_joining(ft::Joining* joining) {
  joining_ = joining;
  if (joining != nullptr) ended_groups_.clear();
}

bool ControlRouter::has_ended(CommId group) const {
  return std::find(ended_groups_.begin(), ended_groups_.end(), group) != ended_groups_.end();
}

ft::Bytes ControlRouter::opening(MemberId coordinator) {
  const auto asked = joining_ == nullptr ? std::nullopt : joining_->opening(coordinator);
  return asked ? encode(*asked) : ft::Bytes();
}

void ControlRouter::hear_opening(MemberId caller, std::span<const std::byte> bytes, Instant now) {
  if (bytes.empty() || service_ == nullptr) return;
  const auto message = ft::decode(bytes);
  if (!message.is_ok() || message.value().kind != ft::MessageKind::kJoin) return;
  service_->on_message(caller, message.value(), now);
}

bool ControlRouter::deliver(MemberId from, const ft::Message& message, Instant now) {
  if (service_ != nullptr) {
    service_->on_message(from, message, now);
    return true;
  }
  const bool for_joiner =
      message.kind == ft::MessageKind::kRedirect || message.kind == ft::MessageKind::kRefused ||
      message.kind == ft::MessageKind::kLobby || message.kind == ft::MessageKind::kDecide;
  // A world that this process is in has messages of these kinds, too; the world that it joins may
  // be one that it has left.
  const auto own = find_world(message.world);
  const bool is_in = own && !own->membership().fenced();
  if (joining_ != nullptr && for_joiner && !is_in) {
    joining_->on_message(from, message);
    return true;
  }
  // Worlds that this process has left, or is about to enter, wait for the same word.
  if (joining_ != nullptr && message.kind == ft::MessageKind::kOut && !is_in) {
    joining_->on_message(from, message);
  }
  bool known = false;
  each_world([&](const auto& world) {
    const bool asks = message.kind == ft::MessageKind::kJoin &&
                      world->membership().name() == message.text && !world->has_ended();
    if (world->id() != message.world && !asks) return;
    known = true;
    if (!asks) return world->on_message(from, message, now);
    ft::Message named = message;
    named.world = world->id();
    world->on_message(from, named, now);
  });
  return known;
}

bool ControlRouter::deliver(const EarlyControl& early, Instant now) {
  if (early.message) return deliver(early.from, *early.message, now);
  const CommId id = early.frame.header.key.comm;
  const Epoch epoch = early.frame.header.key.epoch;
  // The group of all members has the world's id.
  if (joining_ != nullptr && early.frame.header.kind == FrameKind::kGoodbye) {
    joining_->on_out(early.from, id);
  }
  bool known = false;
  each_world([&](const auto& world) {
    const auto group = world->find_group(id);
    if (!group) return;
    known = true;
    switch (early.frame.header.kind) {
      case FrameKind::kRevoke: group->on_revoke(early.from, epoch, early.frame.payload); break;
      case FrameKind::kCall: group->on_call(early.from, epoch, early.frame.payload); break;
      case FrameKind::kGoodbye: world->on_goodbye(early.from, id, now); break;
      case FrameKind::kClosing: group->on_closing(early.from, early.frame.header); break;
      case FrameKind::kSettled: group->on_settled(early.from, early.frame.header); break;
      case FrameKind::kSent: group->on_sent(early.from, early.frame.payload); break;
      case FrameKind::kMail: group->on_mail(early.from, early.frame.payload); break;
      case FrameKind::kArea: group->on_area(early.from, epoch, early.frame.payload); break;
      default: break;
    }
  });
  return known;
}

void ControlRouter::keep_early(EarlyControl early) {
  const auto tells_call = [&](const EarlyControl& other) {
    return other.from == early.from && other.frame.header.kind == FrameKind::kCall;
  };
  const bool known =
      tells_call(early) && static_cast<std::size_t>(std::count_if(early_.begin(), early_.end(),
                                                                  tells_call)) >= kMaxEarlyCalls;
  if (known) return;
  early_.push_back(std::move(early));
  std::size_t bytes = 0;
  for (std::size_t i = early_.size(); i-- > 0;) {
    bytes += kEarlyEntryBytes + early_[i].frame.payload.size();
    if (const auto& message = early_[i].message) {
      bytes += message->body.groups.size() + message->body.ops.size() + message->accepted.size();
      for (const ft::Bytes& groups : message->reports.groups()) bytes += groups.size();
      for (const ft::Bytes& ops : message->reports.ops()) bytes += ops.size();
    }
    if (bytes <= kMaxEarlyBytes || i + 1 == early_.size()) continue;
    early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

void ControlRouter::deliver_early(Instant now) {
  for (EarlyControl& early : std::exchange(early_, {})) {
    if (!deliver(early, now)) keep_early(std::move(early));
  }
}

// Every peer gets a heartbeat at intervals, whatever else this process does.
void ControlRouter::beat(Instant now) {
  const bool paused = now - last_turn_ > timing_.heartbeat * 2;
  for (auto& [id, peer] : peers_) {
    if (peer.reported) continue;
    if (paused) peer.detector.forgive(now);
    if (peer.cut) continue;
    peer.control->session().send_control(FrameKind::kHeartbeat, {}, {}, owner_.news_for(id));
    peer.control->pump();
  }
  std::erase_if(early_, [&](const EarlyControl& early) { return now - early.since > kEarlyTime; });
  next_beat_ = now + timing_.heartbeat;
  next_silence_ = {};
}

void ControlRouter::send(MemberId to, const ft::Message& message) {
  const auto found = peers_.find(to);
  if (found == peers_.end() || !has_met(found->second)) return wait_for(to, message);
  // A message that is lost here is sent again when it matters.
  if (found->second.reported || found->second.cut) return;
  if (is_planted(Planted::kNeverTell) && message.kind == ft::MessageKind::kFenced) return;
  comm::Link& control = *found->second.control;
  const ft::Bytes bytes = encode(message);
  for (std::size_t at = 0; at < bytes.size(); at += comm::kMaxFramePayload) {
    const std::size_t count = std::min<std::size_t>(comm::kMaxFramePayload, bytes.size() - at);
    comm::FrameHeader header;
    header.kind = FrameKind::kMembership;
    header.payload_bytes = static_cast<std::uint32_t>(count);
    header.offset = at;
    header.total_bytes = bytes.size();
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    control.session().send_control(header, {begin, begin + static_cast<std::ptrdiff_t>(count)});
  }
  control.pump();
  owner_.nudge(to);
}

void ControlRouter::send(MemberId to, CommId group, Epoch epoch, FrameKind kind,
                         const ft::Bytes& payload) {
  const auto found = peers_.find(to);
  if (found == peers_.end() || found->second.reported || found->second.cut) return;
  comm::Link& control = *found->second.control;
  control.session().send_control(kind, group, epoch, payload);
  control.pump();
  owner_.nudge(to);
}

comm::MemberLinks ControlRouter::links_to(MemberId member) {
  const auto found = peers_.find(member);
  if (found == peers_.end() || !has_met(found->second)) return {};
  return {found->second.data, found->second.control};
}

std::shared_ptr<World> ControlRouter::find_world(const std::vector<MemberId>& members) const {
  std::shared_ptr<World> found;
  each_world([&](const auto& world) {
    if (!found && !world->has_ended() && world->has_all(members)) found = world;
  });
  return found;
}

std::shared_ptr<World> ControlRouter::find_world(CommId id) const {
  std::shared_ptr<World> found;
  each_world([&](const auto& world) {
    if (world->id() == id) found = world;
  });
  return found;
}

void ControlRouter::step_joining(Instant now) {
  joining_->tick(now, [&](MemberId member) { return is_connected(member); });
  for (const ft::Joiner& joiner : joining_->wanted()) {
    const bool calls = joining_->is_member(joiner.member) || calls_first(joiner.member);
    if (calls && !is_connected(joiner.member)) owner_.want(joiner);
  }
  for (auto& [to, message] : joining_->take_sends()) send(to, message);
}

void ControlRouter::step_service(Instant now) {
  for (const MemberId peer : std::exchange(ended_late_, {})) {
    service_->on_closed(peer, true, now);
  }
  if (now >= service_->next_tick()) service_->tick(now);
  for (auto& [to, message] : service_->take_sends()) send(to, message);
  has_begun_ = service_->take_begun() || has_begun_;
}

}  // namespace holdfast::group
