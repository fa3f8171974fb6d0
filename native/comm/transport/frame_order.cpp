#include "comm/transport/frame_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/copy.h"
#include "base/planted.h"

namespace holdfast::comm {
namespace {

// As many buffers as a sender has frames on their way at once.
constexpr std::size_t kSpareBuffers = 8;

Status give_frame(Session& session, const FrameHeader& header, std::span<const std::byte> payload) {
  TRY(session.begin_frame(header));
  while (!payload.empty()) payload = payload.subspan(session.payload(payload));
  return Status::ok();
}

}  // namespace

Status FrameOrder::take(std::uint64_t number, const FrameHeader& header,
                        std::span<const std::byte> payload, Session& session) {
  if (payload.size() != header.payload_bytes) {
    return {Code::kProtocolError, "malformed frame: its payload has another size than it says"};
  }
  const bool is_fetched = !early_.empty() && early_.begin()->first == number;
  if (number == next_ && !is_fetched) {
    ++next_;
    TRY(give_frame(session, header, payload));
    return deliver(session);
  }
  auto early = keep(number, header, room(header.payload_bytes));
  if (!early.is_ok()) return early.status();
  if (!payload.empty()) {
    copy_bytes(early.value()->buffer.memory.get(), payload.data(), payload.size());
  }
  early.value()->whole = true;
  return Status::ok();
}

Result<std::byte*> FrameOrder::expect(std::uint64_t number, const FrameHeader& header) {
  auto early = keep(number, header, room(header.payload_bytes));
  if (!early.is_ok()) return early.status();
  return early.value()->buffer.memory.get();
}

Status FrameOrder::filled(std::uint64_t number, Session& session) {
  const auto found = early_.find(number);
  CHECK(found != early_.end() && !found->second.whole);
  found->second.whole = true;
  return deliver(session);
}

Status FrameOrder::take(std::uint64_t number, const FrameHeader& header, FrameBuffer payload,
                        Session& session) {
  if (number < next_ || early_.contains(number)) {
    Status status;
    if (is_planted(Planted::kDeliverTwice) && number < next_) {
      status = give_frame(session, header, {payload.memory.get(), header.payload_bytes});
    }
    keep_spare(std::move(payload));
    return status;
  }
  if (number == next_) {
    ++next_;
    const Status status = give_frame(session, header, {payload.memory.get(), header.payload_bytes});
    keep_spare(std::move(payload));
    TRY(status);
    return deliver(session);
  }
  auto early = keep(number, header, std::move(payload));
  if (!early.is_ok()) return early.status();
  early.value()->whole = true;
  return Status::ok();
}

Result<FrameOrder::EarlyFrame*> FrameOrder::keep(std::uint64_t number, const FrameHeader& header,
                                                 FrameBuffer buffer) {
  if (number < next_ || number - next_ > kMostAhead || early_.contains(number)) {
    return Status{Code::kProtocolError, "broken peer: frame " + std::to_string(number) + " where " +
                                            std::to_string(next_) + " is awaited"};
  }
  if (early_bytes_ + header.payload_bytes > kMostBytesAhead) {
    return Status{Code::kProtocolError,
                  "broken peer: more bytes ahead of an awaited frame than the limit of " +
                      std::to_string(kMostBytesAhead >> 20) + " MiB"};
  }
  early_bytes_ += header.payload_bytes;
  EarlyFrame& early = early_[number];
  early.header = header;
  early.buffer = std::move(buffer);
  return &early;
}

// Delivers the frames that are whole and whose turn has come.
Status FrameOrder::deliver(Session& session) {
  for (auto first = early_.begin(); first != early_.end(); first = early_.begin()) {
    EarlyFrame& early = first->second;
    if (first->first != next_ || !early.whole) break;
    ++next_;
    const std::size_t bytes = early.header.payload_bytes;
    early_bytes_ -= bytes;
    const Status status = give_frame(session, early.header, {early.buffer.memory.get(), bytes});
    keep_spare(std::move(early.buffer));
    early_.erase(first);
    TRY(status);
  }
  return Status::ok();
}

// Large buffers are all of one size, so that each can be reused for any large frame and a network
// adapter keeps it registered.
FrameBuffer FrameOrder::room(std::size_t bytes) {
  if (bytes == 0) return {};
  if (bytes > kEagerBytes && bytes <= large_ && !spare_.empty()) {
    FrameBuffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  const std::size_t capacity = bytes > kEagerBytes ? std::max(bytes, large_) : bytes;
  return {std::make_unique_for_overwrite<std::byte[]>(capacity), capacity};
}

void FrameOrder::keep_spare(FrameBuffer buffer) {
  if (buffer.capacity == large_ && spare_.size() < kSpareBuffers) {
    spare_.push_back(std::move(buffer));
  }
}

}  // namespace holdfast::comm
