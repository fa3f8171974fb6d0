#include "comm/transport/ring.h"

#include <algorithm>

#include "base/cache_line.h"
#include "base/check.h"
#include "base/copy.h"

namespace holdfast::comm {
namespace {

constexpr std::uint64_t kLine = kCacheLine;  // frames start on one; a header has one to itself

constexpr std::uint64_t frame_bytes(std::uint64_t payload_bytes) {
  return kLine + (payload_bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

RingWriter::RingWriter(std::byte* memory, std::size_t ready)
    : cursors_(reinterpret_cast<RingCursors*>(memory)), data_(memory + kRingDataAt) {
  set_ready(ready);
}

void RingWriter::set_ready(std::size_t bytes) {
  CHECK(bytes >= ready_ && bytes >= kRingFirstBytes && bytes <= kRingBytes);
  ready_ = bytes;
  // The header of a pad goes behind the last frame, so it needs room there.
  end_ = bytes == kRingBytes ? kRingBytes : bytes - kLine;
  // Of two largest frames one always fits, wherever the other lies.
  most_payload_ = std::min(kRingFramePayload, end_ / 2 / kLine * kLine - kLine);
}

// Bytes for the frame and for the gap that is skipped before it.
std::uint64_t RingWriter::needs(std::uint64_t frame) const {
  const std::uint64_t at = head_ % kRingBytes;
  return at + frame <= end_ ? frame : kRingBytes - at + frame;
}

bool RingWriter::has(std::uint64_t room) const {
  return head_ - tail_seen_ <= kRingBytes && kRingBytes - (head_ - tail_seen_) >= room;
}

bool RingWriter::has_room(std::uint64_t payload_bytes) {
  const std::uint64_t need = needs(frame_bytes(payload_bytes));
  if (has(need)) return true;
  tail_seen_ = cursors_->tail.load(std::memory_order_acquire);  // acquire: its reads are over
  if (has(need)) return true;
  // seq_cst: raised before the last look, against the consumer's move-then-look.
  cursors_->producer_waits.store(1, std::memory_order_seq_cst);
  tail_seen_ = cursors_->tail.load(std::memory_order_seq_cst);
  return has(need);
}

std::uint64_t RingWriter::place(std::uint64_t bytes) {
  const std::uint64_t at = head_ % kRingBytes;
  if (at + bytes <= end_) return at;
  FrameHeader pad;
  pad.kind = FrameKind::kPad;
  encode_header(pad, std::span<std::byte, kFrameHeaderBytes>(data_ + at, kFrameHeaderBytes));
  head_ += kRingBytes - at;
  return 0;
}

bool RingWriter::write(const FrameHeader& header, std::span<const std::byte> payload) {
  if (!has_room(payload.size())) return false;
  const std::uint64_t bytes = frame_bytes(payload.size());
  const std::uint64_t at = place(bytes);
  encode_header(header, std::span<std::byte, kFrameHeaderBytes>(data_ + at, kFrameHeaderBytes));
  copy_bytes(data_ + at + kLine, payload.data(), payload.size());
  head_ += bytes;
  cursors_->head.store(head_, std::memory_order_release);  // release: the frame is written
  return true;
}

RingReader::RingReader(std::byte* memory)
    : cursors_(reinterpret_cast<RingCursors*>(memory)), data_(memory + kRingDataAt) {}

Result<std::optional<RingFrame>> RingReader::peek() {
  for (;;) {
    const std::uint64_t head = cursors_->head.load(std::memory_order_acquire);  // acquire: frames
    const std::uint64_t available = head - tail_;
    if (available == 0) return std::optional<RingFrame>{};
    const std::uint64_t at = tail_ % kRingBytes;
    if (available > kRingBytes || available < kLine) {
      return Status{Code::kProtocolError, "broken peer: ring cursor out of bounds"};
    }
    auto header =
        parse_header(std::span<const std::byte, kFrameHeaderBytes>(data_ + at, kFrameHeaderBytes));
    if (!header.is_ok()) return header.status();
    if (header.value().kind == FrameKind::kPad) {
      tail_ += kRingBytes - at;
      cursors_->tail.store(tail_, std::memory_order_release);
      continue;
    }
    const std::uint64_t bytes = frame_bytes(header.value().payload_bytes);
    if (bytes > available || at + bytes > kRingBytes) {
      return Status{Code::kProtocolError, "broken peer: frame beyond the ring"};
    }
    return std::optional<RingFrame>{
        {header.value(), {data_ + at + kLine, header.value().payload_bytes}}};
  }
}

void RingReader::consume(const RingFrame& frame) {
  tail_ += frame_bytes(frame.payload.size());
  cursors_->tail.store(tail_, std::memory_order_seq_cst);  // seq_cst: see producer_waits()
}

bool RingReader::producer_waits() {
  if (cursors_->producer_waits.load(std::memory_order_seq_cst) == 0) return false;
  return cursors_->producer_waits.exchange(0, std::memory_order_acq_rel) != 0;
}

}  // namespace holdfast::comm
