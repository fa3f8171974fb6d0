// What a session keeps of messages that come before they are asked for.
#include <algorithm>
#include <utility>

#include "comm/transport/session.h"

namespace holdfast::comm {

Status Session::begin_unexpected(const FrameHeader& header) {
  const bool ends =
      header.kind == FrameKind::kDataEnd || header.payload_bytes == header.total_bytes;
  if (!ends || header.offset != 0) return broken("an eager message in pieces");
  if (unexpected_bytes_ + header.payload_bytes > kMaxUnexpectedBytes ||
      unexpected_.size() >= kMaxUnexpectedMessages) {
    return broken("more early messages than the limit of " +
                  std::to_string(kMaxUnexpectedBytes >> 20) + " MiB");
  }
  unexpected_bytes_ += header.payload_bytes;
  unexpected_.push_back(
      {header.key, header.signature, header.total_bytes, take_spare(header.payload_bytes)});
  target_ = Target::kUnexpected;
  return Status::ok();
}

void Session::restart(const Status& why) {
  for (SendPost* post : std::exchange(sends_, {})) {
    post->queued = false;
    post->fail(why);
  }
  for (RecvPost* post : std::exchange(recvs_, {})) post->fail(why);
  queue_.clear();
  passed_ = 0;
  controls_.clear();
  next_control_ = 0;
  notices_.clear();
  arrived_controls_.clear();
  std::erase_if(unexpected_, [this](const Unexpected& u) {
    if (u.received == u.bytes.size()) return false;
    unexpected_bytes_ -= u.bytes.size();
    return true;
  });
  target_ = Target::kNone;
  recv_ = nullptr;
  is_last_ = false;
  left_ = 0;
}

void Session::deliver_unexpected(RecvPost& post, Unexpected& early) {
  unexpected_bytes_ -= early.bytes.size();
  FrameHeader header;
  header.total_bytes = early.total_bytes;
  header.signature = early.signature;
  if (!post.matches(header)) {
    post.fail(post.mismatch(header));
    return;
  }
  if (early.bytes.size() != early.total_bytes && !post.may_end_early) {
    post.fail(broken("a message that ends early"));
    return;
  }
  post.deliver(early.bytes);
  post.finished = true;
  give_spare(std::move(early.bytes));
}

std::vector<std::byte> Session::take_spare(std::size_t size) {
  const auto fits = [&](const auto& spare) { return spare.capacity() >= size; };
  auto found = std::find_if(spare_.begin(), spare_.end(), fits);
  if (size == 0 || found == spare_.end()) return std::vector<std::byte>(size);
  std::vector<std::byte> bytes = std::move(*found);
  spare_.erase(found);
  bytes.resize(size);
  return bytes;
}

// Where there are enough, the largest stay.
void Session::give_spare(std::vector<std::byte> bytes) {
  if (bytes.capacity() == 0) return;
  bytes.clear();
  spare_.push_back(std::move(bytes));
  if (spare_.size() <= kMostSpareBuffers) return;
  spare_.erase(std::min_element(spare_.begin(), spare_.end(), [](const auto& a, const auto& b) {
    return a.capacity() < b.capacity();
  }));
}

bool Session::has_arrived(const MessageKey& key) const {
  const bool early = std::any_of(unexpected_.begin(), unexpected_.end(),
                                 [&](const Unexpected& u) { return u.key == key; });
  return early || std::any_of(notices_.begin(), notices_.end(), [&](const Notice& n) {
           return n.header.kind == FrameKind::kAnnounce && n.header.key == key;
         });
}

}  // namespace holdfast::comm
