#include "comm/transport/session.h"

#include <algorithm>
#include <utility>

#include "base/copy.h"

namespace holdfast::comm {
namespace {

// Copying this many bytes costs less than a system call.
constexpr std::uint64_t kWorthCopying = 16 * 1024;

// A grant is worth a frame when it opens at least this much (or all the rest).
std::uint64_t grant_step(const RecvPost& post) {
  return post.window > 0 ? post.window / 2 : kMaxFramePayload;
}

template <class P>
P* find_post(const std::vector<P*>& posts, const MessageKey& key) {
  const auto found = std::find_if(posts.begin(), posts.end(), [&](P* p) { return p->key == key; });
  return found == posts.end() ? nullptr : *found;
}

}  // namespace

Status Session::broken(const std::string& what) {
  return {Code::kProtocolError, "broken peer: " + what};
}

void Session::limit_early(const EarlyLimits& limits) {
  limits_ = limits;
  sending_.limit_early(limits);
  debt_ = Debt(limits.bytes);
}

void Session::post(RecvPost& post) {
  post.posted = true;
  const auto announced = announces_.take(post.key);
  if (announced && !post.matches(*announced)) {
    post.fail(post.mismatch(*announced));
    return;
  }
  if (auto early = early_.take(post.key)) return deliver_early(post, std::move(*early));
  recvs_.push_back(&post);
  if (post.eager() && (announced || announces_.forgets())) answer(post);
  grant(post);
}

void Session::grant(RecvPost& post) {
  if (post.eager() || post.limit <= post.granted) return;
  if (post.limit != post.total_bytes && post.limit - post.granted < grant_step(post)) return;
  post.granted = post.limit;
  controls_.tell(FrameKind::kGrant, post, post.granted);
}

// Answers an ask. For a large message the answer repeats what was granted; for a small one it is
// the grant.
void Session::answer(RecvPost& post) {
  if (post.eager()) post.granted = post.total_bytes;
  controls_.tell(FrameKind::kAnswer, post, post.granted);
}

void Session::cancel(RecvPost& post) {
  std::erase(recvs_, &post);
  if (recv_ != &post) return;
  recv_ = nullptr;
  if (target_ == Target::kRecv) target_ = Target::kDiscard;
}

void Session::retire(CommId comm, Epoch epoch) {
  if (is_retired(comm, epoch)) return;
  retired_.emplace_back(comm, epoch);
  retired_views_.insert(retired_.back());
  if (retired_.size() > kMaxRetired) {
    retired_views_.erase(retired_.front());
    retired_.pop_front();
  }
  announces_.retire(comm, epoch);
  sending_.retire(comm, epoch);
  std::erase_if(looked_for_,
                [&](const MessageKey& key) { return key.comm == comm && key.epoch == epoch; });
  // A message that is just arriving is dropped when its frame ends.
  settle(early_.retire(comm, epoch));
}

void Session::restart(const Status& why) {
  sending_.restart(why);
  for (RecvPost* post : std::exchange(recvs_, {})) post->fail(why);
  controls_ = {};
  announces_ = {};
  looked_for_.clear();
  early_.outlive_connection();
  debt_ = Debt(limits_.bytes);
  arrived_controls_.clear();
  target_ = Target::kNone;
  recv_ = nullptr;
  is_last_ = false;
  left_ = 0;
}

bool Session::is_retired(CommId comm, Epoch epoch) const {
  return !retired_.empty() && retired_views_.contains({comm, epoch});
}

void Session::send_control(FrameKind kind, CommId comm, Epoch epoch,
                           std::vector<std::byte> payload) {
  FrameHeader header;
  header.kind = kind;
  header.key.comm = comm;
  header.key.epoch = epoch;
  send_control(header, std::move(payload));
}

void Session::send_control(const FrameHeader& header, std::vector<std::byte> payload) {
  OutFrame out;
  out.header = header;
  out.header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  out.owned_payload = std::move(payload);
  controls_.push(std::move(out));
}

bool Session::next_frame(std::uint64_t max_payload, OutFrame& out) {
  return next_control(out) || sending_.next_frame(max_payload, out);
}

bool Session::next_control(OutFrame& out) {
  if (controls_.empty()) return false;
  controls_.pop(out);
  return true;
}

std::optional<ControlFrame> Session::take_control() {
  if (arrived_controls_.empty()) return std::nullopt;
  if (target_ == Target::kControl && arrived_controls_.size() == 1) return std::nullopt;
  ControlFrame frame = std::move(arrived_controls_.front());
  arrived_controls_.pop_front();
  return frame;
}

Status Session::begin_frame(const FrameHeader& header) {
  CHECK(left_ == 0 && target_ == Target::kNone);
  left_ = header.payload_bytes;
  is_last_ = header.kind == FrameKind::kDataEnd || header.kind == FrameKind::kEager;
  target_ = Target::kDiscard;
  const bool ended = is_retired(header.key.comm, header.key.epoch);
  Status status;
  switch (header.kind) {
    case FrameKind::kEager:
      if (ended) settle(early_cost(header.payload_bytes));
      if (!ended) status = begin_eager(header);
      break;
    case FrameKind::kData:
    case FrameKind::kDataEnd:
      if (!ended) status = begin_data(header);
      break;
    case FrameKind::kGrant:
    case FrameKind::kAnswer:
      if (!ended) sending_.on_grant(header);
      break;
    case FrameKind::kAnnounce:
    case FrameKind::kAsk:
      if (!ended) on_announce(header);
      break;
    case FrameKind::kLook:
      if (!ended) sending_.on_look(header);
      break;
    case FrameKind::kCredit:
      if (!sending_.on_credit(header.total_bytes)) status = broken("credit that was never spent");
      break;
    case FrameKind::kRevoke:
    case FrameKind::kGoodbye:
    case FrameKind::kCall:
    case FrameKind::kMembership:
    case FrameKind::kHeartbeat:
    case FrameKind::kClosing:
    case FrameKind::kSettled:
    case FrameKind::kArea:
    case FrameKind::kSent:
    case FrameKind::kMail:
      target_ = Target::kControl;
      arrived_controls_.push_back({header, {}});
      arrived_controls_.back().payload.reserve(header.payload_bytes);
      break;
    case FrameKind::kWake: break;
    case FrameKind::kHello:
    case FrameKind::kWelcome:
    case FrameKind::kPad: return broken("a handshake frame on an open link");
  }
  if (ended && target_ == Target::kDiscard) ++dropped_frames_;
  if (status.is_ok() && left_ == 0) finish_frame();
  return status;
}

Status Session::begin_eager(const FrameHeader& header) {
  if (header.offset != 0 || header.total_bytes > kEagerBytes) {
    return broken("an eager message in pieces");
  }
  if (RecvPost* post = find_post(recvs_, header.key)) {
    settle(early_cost(header.payload_bytes));
    return begin_receive(*post, header, header.total_bytes);
  }
  if (!early_.begin(header, limits_.bytes)) {
    return broken("more early messages than the limit of " + std::to_string(limits_.bytes) +
                  " bytes");
  }
  target_ = Target::kEarly;
  return Status::ok();
}

Status Session::begin_data(const FrameHeader& header) {
  if (RecvPost* post = find_post(recvs_, header.key)) {
    return begin_receive(*post, header, post->granted);
  }
  ++dropped_frames_;  // its receive was cancelled
  return Status::ok();
}

Status Session::begin_receive(RecvPost& post, const FrameHeader& header, std::uint64_t room) {
  if (!post.matches(header)) {
    cancel(post);
    post.fail(post.mismatch(header));
    return Status::ok();
  }
  const std::uint64_t end = header.offset + header.payload_bytes;
  if (header.offset != post.done || end > room) {
    return broken("data out of order or beyond its grant");
  }
  if (header.payload_bytes % post.combine.element_bytes != 0) return broken("a split element");
  const bool whole = header.kind == FrameKind::kEager && end == header.total_bytes;
  if (is_last_ && !whole && !post.may_end_early) return broken("a message that ends early");
  target_ = Target::kRecv;
  recv_ = &post;
  return Status::ok();
}

// An ask is answered once: a peer that reads nothing cannot make answers pile up.
void Session::on_announce(const FrameHeader& header) {
  RecvPost* post = find_post(recvs_, header.key);
  if (post == nullptr) {
    announces_.keep(header, limits_.notices, looks_for(header.key));
  } else if (!post->matches(header)) {
    cancel(*post);
    post->fail(post->mismatch(header));
  } else if (header.kind == FrameKind::kAsk && !std::exchange(post->answered, true)) {
    answer(*post);
  }
}

// Asks the peer to announce a message again. The session looks for one message of each tag at a
// time.
void Session::look_for(const MessageKey& key) {
  auto same = std::find_if(looked_for_.begin(), looked_for_.end(), [&](const MessageKey& other) {
    return other.comm == key.comm && other.epoch == key.epoch && other.op == key.op;
  });
  if (same == looked_for_.end()) same = looked_for_.insert(same, MessageKey{});
  if (std::exchange(*same, key) == key) return;
  Post none;
  none.key = key;
  controls_.tell(FrameKind::kLook, none, 0);
}

bool Session::looks_for(const MessageKey& key) const {
  return std::find(looked_for_.begin(), looked_for_.end(), key) != looked_for_.end();
}

bool Session::has_arrived(const MessageKey& key) {
  if (early_.has(key) || announces_.has(key)) return true;
  if (announces_.forgets()) look_for(key);
  return false;
}

void Session::deliver_early(RecvPost& post, EarlyMessage early) {
  FrameHeader header;
  header.total_bytes = early.total_bytes;
  header.signature = early.signature;
  if (!post.matches(header)) {
    post.fail(post.mismatch(header));
  } else if (early.bytes.size() != early.total_bytes && !post.may_end_early) {
    post.fail(broken("a message that ends early"));
  } else {
    post.deliver(early.bytes);
    post.finished = true;
  }
  settle(early_.release(std::move(early)));
}

// Returns to the sender what a message cost, once a lump has gathered.
void Session::settle(std::uint64_t cost) {
  const std::uint64_t lump = debt_.add(cost);
  if (lump == 0) return;
  OutFrame out;
  out.header.kind = FrameKind::kCredit;
  out.header.total_bytes = lump;
  controls_.push(std::move(out));
}

std::size_t Session::worth_buffering() const {
  if (recvs_.empty()) return 0;
  const RecvPost& next = *recvs_.front();
  const std::uint64_t left = next.total_bytes - next.done;
  // A message that is reduced passes through a buffer anyway.
  const std::uint64_t most = next.combine.kernel ? kEagerBytes : kWorthCopying;
  return left <= most ? left : 0;
}

std::span<std::byte> Session::direct() {
  if (target_ == Target::kEarly) return early_.rest();
  if (target_ != Target::kRecv || recv_->combine.kernel) return {};
  const std::uint64_t at = recv_->window == 0 ? recv_->done : recv_->done % recv_->window;
  const std::uint64_t run = recv_->window == 0 ? left_ : std::min(left_, recv_->window - at);
  return {recv_->data + at, run};
}

std::uint64_t Session::unit() const {
  return target_ == Target::kRecv ? recv_->combine.element_bytes : 1;
}

void Session::filled(std::uint64_t bytes) {
  CHECK(bytes <= left_);
  left_ -= bytes;
  if (target_ == Target::kEarly) {
    early_.filled(bytes);
  } else {
    recv_->done += bytes;
    *recv_->touched = true;
  }
  if (left_ == 0) finish_frame();
}

std::uint64_t Session::payload(std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), left_));
  if (const std::span<std::byte> to = direct(); !to.empty()) {
    const std::uint64_t run = std::min(to.size(), bytes.size()) / unit() * unit();
    if (run == 0) return 0;
    copy_bytes(to.data(), bytes.data(), run);
    filled(run);
    return run;
  }
  if (target_ == Target::kRecv) {
    bytes = bytes.first(bytes.size() / recv_->combine.element_bytes * recv_->combine.element_bytes);
    recv_->deliver(bytes);
  } else if (target_ == Target::kControl) {
    auto& to = arrived_controls_.back().payload;
    to.insert(to.end(), bytes.begin(), bytes.end());
  }
  left_ -= bytes.size();
  if (left_ == 0) finish_frame();
  return bytes.size();
}

void Session::finish_frame() {
  const Target target = target_;
  RecvPost* post = recv_;
  target_ = Target::kNone;
  recv_ = nullptr;
  if (target == Target::kRecv && (is_last_ || post->done == post->total_bytes)) {
    post->finished = true;
    *post->touched = true;
    std::erase(recvs_, post);
  }
  if (target != Target::kEarly) return;
  const MessageKey& key = early_.arriving();
  if (RecvPost* waiting = find_post(recvs_, key)) {
    std::erase(recvs_, waiting);
    deliver_early(*waiting, early_.take_arrived());
  } else if (early_.has(key) || is_retired(key.comm, key.epoch)) {
    settle(early_.release(early_.take_arrived()));
  } else {
    early_.keep_arrived();
  }
}

}  // namespace holdfast::comm
