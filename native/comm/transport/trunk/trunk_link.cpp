#include "comm/transport/trunk/trunk_link.h"

#include <algorithm>
#include <utility>

#include "base/patience.h"
#include "base/planted.h"
#include "comm/transport/trunk/lane_calls.h"
#include "comm/transport/trunk/lane_socket.h"

namespace holdfast::comm {
namespace {

// What is no message may be more than that, for it is pulled first.
static_assert(kMostWindow < kMostControls);
static_assert(kMostControls + kMaxFramePayload <= kMostBytesAhead);
static_assert(kMostUnconfirmed < kMostAhead);
// What a receiver leaves unconfirmed while nothing goes the other way.
constexpr std::uint64_t kUnsaidBytes = 64 * 1024;
constexpr std::size_t kUnsaidFrames = 32;
// Turns of reading, and of writing, after which others have their turn.
constexpr int kReadsOfLane = 4;
constexpr int kWritesOfLane = 4;

TrunkStream stream_of(FrameKind kind) {
  const bool control = kind == FrameKind::kHeartbeat || kind == FrameKind::kMembership;
  return control ? TrunkStream::kControl : TrunkStream::kBulk;
}

}  // namespace

TrunkLink::TrunkLink(Connection first, const TrunkTerms& terms)
    : terms_(terms), watch_(std::make_unique<LaneEpoll>()), growth_(1), window_(kLeastWindow) {
  auto stream = std::make_unique<LaneSocket>(std::move(first));
  reset();
  if (watch_->fd() < 0) fail({Code::kSystem, "no file descriptors left (see ulimit -n)"});
  join(std::move(stream));
}

TrunkLink::TrunkLink(std::unique_ptr<LaneStream> first, const TrunkTerms& terms,
                     std::unique_ptr<LaneWatch> watch)
    : terms_(terms), watch_(std::move(watch)), growth_(1), window_(kLeastWindow) {
  reset();
  join(std::move(first));
}

void TrunkLink::reset() {
  lanes_.clear();
  streams_ = {};
  growth_ =
      LaneGrowth(std::max(1U, terms_.lanes - static_cast<unsigned>(first_bulk(terms_.lanes))));
  window_ = kLeastWindow;
  pace_ = {};
  echoes_.clear();
  resumed_ = true;
  peer_wants_ = 0;
  unsaid_bytes_ = 0;
  unsaid_frames_ = 0;
  goodbye_.reset();
  closed_by_peer_ = waited_ = false;
  poll_ = true;
}

void TrunkLink::sever(Status why) {
  fail(std::move(why));
  lanes_.clear();
  meter()->trunk.end();
}

void TrunkLink::renew(Connection connection) {
  renew(std::make_unique<LaneSocket>(std::move(connection)));
}

void TrunkLink::renew(std::unique_ptr<LaneStream> stream) {
  session().restart({Code::kPeerLost, "the connection to it broke, and was made anew"});
  reset();
  recover();
  join(std::move(stream));
}

void TrunkLink::hang_up() {
  for (const auto& lane : lanes_) lane->hang_up();
}

void TrunkLink::join(Connection connection) {
  join(std::make_unique<LaneSocket>(std::move(connection)));
}

// Lanes that have stalled are given up for the new one: what they carried goes again.
void TrunkLink::join(std::unique_ptr<LaneStream> stream) {
  if (!status().is_ok()) return;
  for (std::size_t i = lanes_.size(); i-- > 0;) {
    lanes_[i]->look();
    const bool detour = lanes_[i]->is_relayed() && !stream->is_relayed();
    const auto why = lanes_[i]->is_stalled() ? std::optional(LaneCut::kStalled) : std::nullopt;
    if (why || detour) drop(i, why);
  }
  const unsigned surplus = is_planted(Planted::kNoSurplus) ? 0 : kSurplusLanes;
  while (lanes_.size() >= std::max(terms_.lanes, 1U) + surplus) drop_quietest();
  if (lanes_.empty() && last_id_ != kNoLane) meter()->trunk.resumed.add(1);
  // Where there was one lane, much of bulk may wait in it: a heartbeat takes the new one.
  const auto others =
      std::ranges::count_if(lanes_, [](const auto& l) { return !l->is_for_bulk(); });
  const bool bulk = static_cast<std::size_t>(others) >= first_bulk(lanes_.size() + 1);
  auto lane = std::make_unique<TrunkLane>(++last_id_, std::move(stream), bulk);
  watch_->add(lane->id(), lane->stream());
  lane->set_control(trial_.next());
  lane->look();  // greeting each other has measured the path
  if (round_trip_ == Duration{}) round_trip_ = Duration(lane->path().least_round_trip_ns);
  // Tells the other side what has come, so that it sends only the rest again.
  lane->queue(header_now(), nullptr);
  lanes_.push_back(std::move(lane));
  sort_lanes();
  poll_ = true;
}

void TrunkLink::trim(Instant now) {
  if (std::exchange(trimmed_id_, last_id_) != last_id_)
    trims_ = now + patience(kLaneTime, round_trip_);
  if (now < trims_) return;
  const bool direct = std::ranges::any_of(
      lanes_, [](const auto& lane) { return !lane->is_relayed() && !lane->is_stalled(); });
  for (std::size_t i = lanes_.size(); direct && i-- > 0;) {
    if (lanes_[i]->is_relayed()) drop(i, std::nullopt);
  }
  while (lanes_.size() > std::max(terms_.lanes, 1U)) drop_quietest();
}

// The one from which nothing has come for longest: the other side may have lost it without a word.
void TrunkLink::drop_quietest() {
  const auto quiet = [](const auto& lane) { return lane->path().quiet_ns; };
  const auto oldest = std::ranges::max_element(lanes_, {}, quiet);
  drop(static_cast<std::size_t>(oldest - lanes_.begin()), LaneCut::kSurplus);
}

void TrunkLink::drop(std::size_t place, std::optional<LaneCut> why) {
  const LaneId id = lanes_[place]->id();
  watch_->remove(id, lanes_[place]->stream());
  lanes_.erase(lanes_.begin() + static_cast<std::ptrdiff_t>(place));
  give_back(id);
  if (lanes_.empty()) resumed_ = false;
  if (why) cuts_.add(*why, meter()->trunk);
}

void TrunkLink::drop_lost() {
  for (std::size_t i = lanes_.size(); i-- > 0;) {
    const Status& why = lanes_[i]->status();
    if (why.is_ok()) continue;
    if (why.code() == Code::kProtocolError) return sever(why);
    // The other side ends its detour, too.
    const bool detour = lanes_[i]->is_relayed() && !is_relayed();
    drop(i, has_left() || detour ? std::nullopt : std::optional(lanes_[i]->cut()));
  }
  // Who has said goodbye closes its connections, and calls for no new ones.
  if (!lanes_.empty() || !has_left()) return;
  closed_by_peer_ = true;
  fail({Code::kPeerLost, "connection closed by the peer"});
}

void TrunkLink::poll_lanes() {
  poll_ = false;
  watch_->poll(news_);
  for (const LaneNews& news : news_) {
    for (const auto& lane : lanes_) {
      if (lane->id() != news.lane) continue;
      if (news.readable) lane->set_readable();
      if (news.writable) lane->set_writable();
    }
  }
}

bool TrunkLink::pump() {
  if (!status().is_ok()) return false;
  if (poll_) poll_lanes();
  bool moved = false;
  for (std::size_t i = 0; i < lanes_.size() && status().is_ok(); ++i) {
    moved = receive(*lanes_[i]) || moved;
  }
  if (!status().is_ok()) return moved;
  drop_lost();
  if (lanes_.empty() || !status().is_ok()) return moved;
  pull_controls();
  const std::size_t live = live_lanes();
  for (std::size_t i = 0; i < lanes_.size(); ++i) moved = send(i, live) || moved;
  confirm();
  drop_lost();
  return moved;
}

bool TrunkLink::receive(TrunkLane& lane) {
  bool moved = false;
  for (int i = 0; i < kReadsOfLane && lane.is_readable(); ++i) {
    const std::uint64_t before = lane.received();
    if (!lane.fill()) break;
    moved = true;
    received_ += lane.received() - before;
    count_received(lane.received() - before);
    while (auto arrival = lane.take(stream(TrunkStream::kBulk).order)) {
      take(std::move(*arrival));
      if (!status().is_ok()) return true;
    }
  }
  return moved;
}

void TrunkLink::take(TrunkLane::LaneArrival arrival) {
  for (std::size_t i = 0; i < kTrunkStreams; ++i) {
    if (Status sound = streams_[i].sent.confirm(arrival.lane.seen[i]); !sound.is_ok()) {
      return fail(std::move(sound));
    }
  }
  resumed_ = true;
  peer_wants_ = arrival.lane.wanted;
  if (!arrival.lane.stream) return;
  const FrameHeader& frame = arrival.frame;
  if (frame.kind == FrameKind::kGoodbye && frame.key.comm == CommId{}) {
    goodbye_ = std::min(goodbye_.value_or(arrival.lane.number), arrival.lane.number);
  }
  unsaid_bytes_ += kFrameHeaderBytes + frame.payload_bytes;
  ++unsaid_frames_;
  Status sound = stream(*arrival.lane.stream)
                     .order.take(arrival.lane.number, frame, std::move(arrival.payload), session());
  if (!sound.is_ok()) fail(std::move(sound));
}

void TrunkLink::pull_controls() {
  OutFrame out;
  const auto has_room = [](const TrunkFrames& stream) {
    return stream.sent.frames() < kMostUnconfirmed && stream.sent.bytes() < kMostControls;
  };
  while (std::ranges::all_of(streams_, has_room) && session().next_control(out)) {
    stream(stream_of(out.header.kind)).sent.add(out);
  }
}

// Takes a frame of bulk from the session; false: there is none, or the window is full.
bool TrunkLink::pull_bulk() {
  SentFrames& sent = stream(TrunkStream::kBulk).sent;
  if (sent.bytes() >= window_ || sent.frames() >= kMostUnconfirmed) {
    waited_ = waited_ || session().wants_to_send();
    return false;
  }
  OutFrame out;
  if (!session().next_frame(kMaxLanePayload, out)) return false;
  stream(stream_of(out.header.kind)).sent.add(out);
  session().sent(out);
  return true;
}

// Lanes that have stalled are the last. If all have, none is worse than the others.
std::size_t TrunkLink::live_lanes() const {
  const auto stalled = std::ranges::find_if(lanes_, [](const auto& l) { return l->is_stalled(); });
  const auto live = static_cast<std::size_t>(stalled - lanes_.begin());
  return live == 0 ? lanes_.size() : live;
}

// A lane that has stalled carries nothing new.
bool TrunkLink::send(std::size_t place, std::size_t live) {
  TrunkLane& lane = *lanes_[place];
  const std::size_t first = first_bulk(live);
  const bool bulk = live == 1 || (place >= first && place < first + growth_.wanted());
  const bool fed = place < live && (resumed_ || lane.is_answered());
  const std::uint64_t before = lane.sent();
  bool moved = false;
  for (int i = 0; i < kWritesOfLane; ++i) {
    if (fed) feed(lane, place == 0, bulk);
    if (!lane.has_queued() || !lane.flush()) break;
    moved = true;
  }
  count_sent(lane.sent() - before);
  if (fed && bulk && lane.is_blocked()) waited_ = waited_ || session().wants_to_send();
  return moved;
}

void TrunkLink::feed(TrunkLane& lane, bool control, bool bulk) {
  while (lane.takes_more()) {
    auto which = TrunkStream::kControl;
    std::shared_ptr<const SentFrame> frame;
    if (control) frame = stream(which).sent.take(lane.id());
    if (frame) echoes_.push_back(frame);
    if (!frame && bulk) {
      which = TrunkStream::kBulk;
      SentFrames& sent = stream(which).sent;
      if (!sent.has_waiting() && !pull_bulk()) return;
      frame = sent.take(lane.id());
    }
    if (!frame) return;
    put(lane, std::move(frame), which);
  }
}

LaneHeader TrunkLink::header_now() const {
  LaneHeader header;
  header.wanted = static_cast<std::uint8_t>(own_wanted());
  for (std::size_t i = 0; i < kTrunkStreams; ++i) header.seen[i] = streams_[i].order.next();
  if (is_planted(Planted::kConfirmAhead)) header.seen[1] += streams_[1].order.is_missing() ? 1 : 0;
  return header;
}

bool TrunkLink::tell(TrunkLane& lane) const {
  if (!lane.takes_more()) return false;
  lane.queue(header_now(), nullptr);
  return true;
}

void TrunkLink::put(TrunkLane& lane, std::shared_ptr<const SentFrame> frame, TrunkStream which) {
  LaneHeader header = header_now();
  header.stream = which;
  header.number = frame->number;
  lane.queue(header, std::move(frame));
  unsaid_bytes_ = 0;
  unsaid_frames_ = 0;
}

void TrunkLink::confirm() {
  if (unsaid_bytes_ < kUnsaidBytes && unsaid_frames_ < kUnsaidFrames) return;
  for (const auto& lane : lanes_) {
    if (!tell(*lane)) continue;
    unsaid_bytes_ = 0;
    unsaid_frames_ = 0;
    const std::uint64_t before = lane->sent();
    lane->flush();
    count_sent(lane->sent() - before);
    return;
  }
}

bool TrunkLink::wants_to_write() {
  if (!status().is_ok()) return false;
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->is_blocked(); });
}

bool TrunkLink::is_relayed() const {
  return std::ranges::all_of(lanes_, [](const auto& lane) { return lane->is_relayed(); });
}

bool TrunkLink::is_stalled() const {
  return std::ranges::all_of(lanes_, [](const auto& lane) { return lane->is_stalled(); });
}

bool TrunkLink::has_stalled() const {
  return std::ranges::any_of(lanes_, [](const auto& lane) { return lane->is_stalled(); });
}

std::size_t TrunkLink::own_wanted() const {
  return std::min<std::size_t>(first_bulk(terms_.lanes) + growth_.wanted(), kMostTrunkLanes);
}

std::size_t TrunkLink::wanted_lanes() const {
  const std::size_t wanted = std::max<std::size_t>(own_wanted(), peer_wants_);
  return std::min<std::size_t>(wanted, std::max(terms_.lanes, 1U));
}

bool TrunkLink::has_left() const {
  if (is_planted(Planted::kEarlyGoodbye)) return goodbye_.has_value();
  return goodbye_ && bulk().order.next() > *goodbye_;
}

void TrunkLink::give_back(LaneId lane) {
  std::uint64_t again = 0;
  for (TrunkFrames& frames : streams_) again += frames.sent.give_back(lane);
  meter()->trunk.sent_again.add(again);
}

}  // namespace holdfast::comm
