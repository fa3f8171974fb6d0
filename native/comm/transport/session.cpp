#include "comm/transport/session.h"

#include <algorithm>

#include "base/copy.h"

namespace holdfast::comm {
namespace {

// Control frames that have gone, before their places are used again.
constexpr std::size_t kMostGone = 64;
// A copy of so much costs less than a system call.
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

void Session::enqueue(SendPost& post) {
  if (post.queued || !post.has_frame()) return;
  post.queued = true;
  queue_.push_back(&post);
}

void Session::post(SendPost& post) {
  CHECK(post.unused == 0 || post.unused < post.total_bytes);
  post.posted = true;
  sends_.push_back(&post);
  if (!post.eager()) {
    if (auto early = take_notice(FrameKind::kGrant, post.key)) {
      apply_grant(post, *early);
      return;
    }
    OutFrame announce;
    announce.header = {FrameKind::kAnnounce, 0, post.key, post.signature, 0, post.total_bytes};
    controls_.push_back(std::move(announce));
  }
  enqueue(post);
}

void Session::resume(SendPost& post) { enqueue(post); }

void Session::apply_grant(SendPost& post, const FrameHeader& grant) {
  if (!post.matches(grant)) {
    cancel(post);
    post.fail(post.mismatch(grant));
    return;
  }
  post.granted = std::max(post.granted, grant.offset);
  enqueue(post);
}

void Session::post(RecvPost& post) {
  post.posted = true;
  if (auto early = take_notice(FrameKind::kAnnounce, post.key); early && !post.matches(*early)) {
    post.fail(post.mismatch(*early));
    return;
  }
  const auto early = std::find_if(unexpected_.begin(), unexpected_.end(),
                                  [&](const Unexpected& u) { return u.key == post.key; });
  if (early != unexpected_.end() && early->received == early->bytes.size()) {
    deliver_unexpected(post, *early);
    unexpected_.erase(early);
    return;
  }
  recvs_.push_back(&post);
  grant(post);
}

void Session::resume(RecvPost& post) { grant(post); }

void Session::grant(RecvPost& post) {
  if (post.eager() || post.limit <= post.granted) return;
  if (post.limit != post.total_bytes && post.limit - post.granted < grant_step(post)) return;
  post.granted = post.limit;
  OutFrame out;
  out.header = {FrameKind::kGrant, 0, post.key, post.signature, post.limit, post.total_bytes};
  controls_.push_back(std::move(out));
}

void Session::cancel(SendPost& post) {
  std::erase(sends_, &post);
  std::erase(queue_, &post);
  post.queued = false;
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
  if (retired_.size() > kMaxRetired) retired_.pop_front();
  const auto ended = [&](const MessageKey& key) { return key.comm == comm && key.epoch == epoch; };
  std::erase_if(notices_, [&](const Notice& n) { return ended(n.header.key); });
  // A message that is just arriving keeps its buffer; it is dropped when its frame ends.
  std::erase_if(unexpected_, [&](const Unexpected& u) {
    if (!ended(u.key) || u.received != u.bytes.size()) return false;
    unexpected_bytes_ -= u.bytes.size();
    return true;
  });
}

bool Session::is_retired(CommId comm, Epoch epoch) const {
  return std::find(retired_.begin(), retired_.end(), std::pair{comm, epoch}) != retired_.end();
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
  controls_.push_back(std::move(out));
}

std::optional<ControlFrame> Session::take_control() {
  if (arrived_controls_.empty()) return std::nullopt;
  if (target_ == Target::kControl && arrived_controls_.size() == 1) return std::nullopt;
  ControlFrame frame = std::move(arrived_controls_.front());
  arrived_controls_.pop_front();
  return frame;
}

// The most urgent message, and in turn the one that has waited longest, so that none starves.
SendPost& Session::take_next() {
  const auto less = [](const SendPost* a, const SendPost* b) { return a->priority < b->priority; };
  auto next = queue_.begin();
  if (passed_ < kMostPassed) next = std::max_element(queue_.begin(), queue_.end(), less);
  passed_ = next == queue_.begin() ? 0 : passed_ + 1;
  SendPost& post = **next;
  queue_.erase(next);
  return post;
}

bool Session::next_frame(std::uint64_t max_payload, OutFrame& out) {
  if (!controls_.empty()) {
    out = std::move(controls_[next_control_++]);
    out.payload = out.owned_payload;
    if (next_control_ == controls_.size() || next_control_ == kMostGone) {
      controls_.erase(controls_.begin(),
                      controls_.begin() + static_cast<std::ptrdiff_t>(next_control_));
      next_control_ = 0;
    }
    return true;
  }
  if (queue_.empty()) return false;
  SendPost& post = take_next();
  post.queued = false;
  out.post = &post;
  out.payload = post.next(max_payload);
  const bool ends = post.unused > 0 && post.issued + out.payload.size() == post.length();
  out.header = {ends ? FrameKind::kDataEnd : FrameKind::kData,
                static_cast<std::uint32_t>(out.payload.size()),
                post.key,
                post.signature,
                post.issued,
                post.total_bytes};
  post.issued += out.payload.size();
  post.announced = true;
  enqueue(post);
  return true;
}

void Session::sent(const OutFrame& frame) {
  if (frame.post == nullptr) return;
  SendPost& post = *frame.post;
  post.done += frame.payload.size();
  *post.touched = true;
  if (post.done != post.length()) return;
  post.finished = true;
  std::erase(sends_, &post);
}

Status Session::begin_frame(const FrameHeader& header) {
  CHECK(left_ == 0 && target_ == Target::kNone);
  left_ = header.payload_bytes;
  is_last_ = header.kind == FrameKind::kDataEnd;
  const bool ended = is_retired(header.key.comm, header.key.epoch);
  Status status;
  switch (header.kind) {
    case FrameKind::kData:
    case FrameKind::kDataEnd:
      target_ = Target::kDiscard;
      if (!ended) status = begin_data(header);
      break;
    case FrameKind::kGrant:
    case FrameKind::kAnnounce:
      target_ = Target::kDiscard;
      if (!ended) status = on_notice(header);
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
      target_ = Target::kControl;
      arrived_controls_.push_back({header, {}});
      arrived_controls_.back().payload.reserve(header.payload_bytes);
      break;
    case FrameKind::kWake: target_ = Target::kDiscard; break;
    case FrameKind::kHello:
    case FrameKind::kWelcome:
    case FrameKind::kPad: return broken("a handshake frame on an open link");
  }
  if (ended && target_ == Target::kDiscard) ++dropped_frames_;
  if (status.is_ok() && left_ == 0) finish_frame();
  return status;
}

Status Session::begin_data(const FrameHeader& header) {
  RecvPost* post = find_post(recvs_, header.key);
  if (post == nullptr) {
    if (header.total_bytes <= kEagerBytes) return begin_unexpected(header);
    ++dropped_frames_;  // its receive was cancelled
    return Status::ok();
  }
  if (!post->matches(header)) {
    cancel(*post);
    post->fail(post->mismatch(header));
    return Status::ok();
  }
  const std::uint64_t room = post->eager() ? post->total_bytes : post->granted;
  if (header.offset != post->done || header.offset + header.payload_bytes > room) {
    return broken("data out of order or beyond its grant");
  }
  if (header.payload_bytes % post->combine.element_bytes != 0) return broken("a split element");
  if (is_last_ && !post->may_end_early) return broken("a message that ends early");
  target_ = Target::kRecv;
  recv_ = post;
  return Status::ok();
}

Status Session::on_notice(const FrameHeader& header) {
  if (header.kind == FrameKind::kGrant) {
    if (SendPost* post = find_post(sends_, header.key)) {
      apply_grant(*post, header);
      return Status::ok();
    }
  } else if (RecvPost* post = find_post(recvs_, header.key)) {
    if (!post->matches(header)) {
      cancel(*post);
      post->fail(post->mismatch(header));
    }
    return Status::ok();
  }
  for (Notice& notice : notices_) {
    if (notice.header.kind != header.kind || notice.header.key != header.key) continue;
    notice.header = header;
    return Status::ok();
  }
  if (notices_.size() >= kMaxNotices) return broken("more early notices than the limit");
  notices_.push_back({header});
  return Status::ok();
}

std::optional<FrameHeader> Session::take_notice(FrameKind kind, const MessageKey& key) {
  const auto found = std::find_if(notices_.begin(), notices_.end(), [&](const Notice& n) {
    return n.header.kind == kind && n.header.key == key;
  });
  if (found == notices_.end()) return std::nullopt;
  const FrameHeader header = found->header;
  *found = notices_.back();
  notices_.pop_back();
  return header;
}

std::size_t Session::worth_buffering() const {
  if (recvs_.empty()) return 0;
  const RecvPost& next = *recvs_.front();
  const std::uint64_t left = next.total_bytes - next.done;
  // What is reduced passes through a buffer anyway.
  const std::uint64_t most = next.combine.kernel != nullptr ? kEagerBytes : kWorthCopying;
  return left <= most ? left : 0;
}

std::span<std::byte> Session::direct() {
  if (target_ == Target::kUnexpected) {
    Unexpected& early = unexpected_.back();
    return std::span(early.bytes).subspan(early.received);
  }
  if (target_ != Target::kRecv || recv_->combine.kernel != nullptr) return {};
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
  if (target_ == Target::kUnexpected) {
    unexpected_.back().received += bytes;
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
  if (target != Target::kUnexpected) return;
  Unexpected& early = unexpected_.back();
  RecvPost* waiting = find_post(recvs_, early.key);
  if (waiting != nullptr) {
    std::erase(recvs_, waiting);
    deliver_unexpected(*waiting, early);
    unexpected_.pop_back();
  } else if (is_retired(early.key.comm, early.key.epoch)) {
    unexpected_bytes_ -= early.bytes.size();
    unexpected_.pop_back();
  }
}

}  // namespace holdfast::comm
