#include "comm/transport/send_side.h"

#include <algorithm>
#include <utility>

namespace holdfast::comm {
namespace {

// Length of the queue from which messages that wait for credit stay outside it: the whole queue is
// searched for each frame.
constexpr std::size_t kMostQueued = 64;

}  // namespace

void SendSide::enqueue(SendPost& post) {
  if (post.queued || !post.has_frame()) return;
  post.queued = true;
  queue_.push_back(&post);
}

void SendSide::post(SendPost& post) {
  CHECK(post.unused == 0 || post.unused < post.total_bytes);
  post.posted = true;
  if (post.eager()) {
    CHECK(post.ready >= post.length());  // an eager message goes out whole
    // A later message must not take credit for which earlier ones wait.
    if (withheld_.empty() && spend_credit(post)) return enqueue(post);
    post.turn = ++last_turn_;
    withheld_.emplace(post.turn, &post);
  }
  sends_.put(post.key, &post);
  if (const auto early = grants_.take(post.key)) return apply_grant(post, *early);
  announce(post);
  enqueue(post);
}

bool SendSide::spend_credit(SendPost& post) {
  if (!credit_.take(early_cost(post.length()))) return false;
  post.unasked = post.welcome = true;
  post.granted = post.total_bytes;
  return true;
}

void SendSide::admit_withheld() {
  while (!withheld_.empty() && queue_.size() < kMostQueued) {
    SendPost& post = *withheld_.begin()->second;
    if (!spend_credit(post)) return;
    withheld_.erase(withheld_.begin());
    post.turn = 0;
    forget(post);
    enqueue(post);
  }
}

// Tells the receiver of a message that waits. The receiver answers an ask; an announce suffices
// where the grant comes unasked and is not forgotten here.
void SendSide::announce(const SendPost& post) {
  const bool comes = !post.eager() && !grants_.forgets();
  controls_.tell(comes ? FrameKind::kAnnounce : FrameKind::kAsk, post, 0);
}

void SendSide::apply_grant(SendPost& post, const FrameHeader& grant) {
  if (!post.matches(grant)) {
    cancel(post);
    post.fail(post.mismatch(grant));
    return;
  }
  if (post.turn != 0) withheld_.erase(std::exchange(post.turn, 0));
  post.welcome = true;
  post.granted = std::max(post.granted, grant.offset);
  enqueue(post);
}

void SendSide::cancel(SendPost& post) {
  if (post.turn != 0) withheld_.erase(std::exchange(post.turn, 0));
  std::erase(queue_, &post);
  post.queued = false;
  forget(post);
  const bool kept_back = std::exchange(post.unasked, false) && !post.announced;
  if (kept_back) CHECK(credit_.give_back(early_cost(post.length())));
}

void SendSide::restart(const Status& why) {
  const auto end = [&](SendPost& post) {
    post.queued = post.unasked = post.welcome = false;
    post.turn = 0;
    post.fail(why);
  };
  for (SendPost* post : std::exchange(queue_, {})) end(*post);
  sends_.erase_if([&](const MessageKey&, SendPost* post) {
    end(*post);
    return true;
  });
  withheld_.clear();
  grants_ = {};
  passed_ = 0;
  credit_.restart();
}

void SendSide::forget(const SendPost& post) {
  SendPost** const found = sends_.find(post.key);
  if (found != nullptr && *found == &post) sends_.take(post.key);
}

// Takes the most urgent message, and after kMostPassed frames the one that has waited longest, so
// that none starves.
SendPost& SendSide::take_next() {
  const auto less = [](const SendPost* a, const SendPost* b) { return a->priority < b->priority; };
  auto next = queue_.begin();
  if (passed_ < kMostPassed) next = std::max_element(queue_.begin(), queue_.end(), less);
  passed_ = next == queue_.begin() ? 0 : passed_ + 1;
  SendPost& post = **next;
  queue_.erase(next);
  return post;
}

bool SendSide::next_frame(std::uint64_t max_payload, OutFrame& out) {
  if (!withheld_.empty()) admit_withheld();
  if (queue_.empty()) return false;
  SendPost& post = take_next();
  post.queued = false;
  out.post = &post;
  out.payload = post.next(max_payload);
  const bool ends = post.unused > 0 && post.issued + out.payload.size() == post.length();
  const FrameKind granted = ends ? FrameKind::kDataEnd : FrameKind::kData;
  out.header = {post.unasked ? FrameKind::kEager : granted,
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

void SendSide::sent(const OutFrame& frame) {
  if (frame.post == nullptr) return;
  SendPost& post = *frame.post;
  post.done += frame.payload.size();
  *post.touched = true;
  if (post.done != post.length()) return;
  post.finished = true;
  if (!post.unasked) forget(post);
}

void SendSide::on_grant(const FrameHeader& header) {
  if (SendPost** const post = sends_.find(header.key)) {
    apply_grant(**post, header);
  } else if (header.kind == FrameKind::kGrant) {
    grants_.keep(header, most_grants_);
  }
}

// A message is announced again only once, so that a peer that reads nothing cannot make frames pile
// up.
void SendSide::on_look(const FrameHeader& header) {
  SendPost** const post = sends_.find(header.key);
  if (post == nullptr || std::exchange((*post)->told_again, true)) return;
  announce(**post);
}

}  // namespace holdfast::comm
