// Ring: one direction of a shared-memory link, a single-producer single-consumer queue of frames. A
// frame lies in one piece, so that its payload can be reduced where it is. The other side is
// another process: nothing it writes is trusted (cursors and headers are copied, then checked).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "comm/transport/frame.h"

namespace holdfast::comm {

// Two megabytes of both rings of a link stay in a core's L2 while they stream.
inline constexpr std::size_t kRingBytes = 1 << 20;
inline constexpr std::uint64_t kRingFramePayload = 128 * 1024;

struct RingCursors {
  alignas(64) std::atomic<std::uint64_t> head;  // producer: bytes ever written
  alignas(64) std::atomic<std::uint64_t> tail;  // consumer: bytes ever read
  std::atomic<std::uint32_t> producer_waits;    // producer found no room
};
inline constexpr std::size_t kRingSegmentBytes = 4096 + kRingBytes;
static_assert(sizeof(RingCursors) <= 4096);

// The producer's view. Memory of kRingSegmentBytes, zero-filled at birth.
class RingWriter {
 public:
  explicit RingWriter(std::byte* memory);
  // Copies the frame in and publishes it; false when there is no room.
  bool write(const FrameHeader& header, std::span<const std::byte> payload);
  bool has_room(std::uint64_t payload_bytes);

 private:
  std::optional<std::uint64_t> reserve(std::uint64_t bytes);

  RingCursors* cursors_;
  std::byte* data_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_seen_ = 0;  // a stale tail is safe: it only hides room
};

struct RingFrame {
  FrameHeader header;
  std::span<const std::byte> payload;  // in the ring, valid until consume()
};

class RingReader {
 public:
  explicit RingReader(std::byte* memory);
  // The next frame, nothing when the ring is empty, or kProtocolError for what no producer writes.
  Result<std::optional<RingFrame>> peek();
  void consume(const RingFrame& frame);
  // Whether the producer waits for room; asking clears it.
  bool producer_waits();

 private:
  RingCursors* cursors_;
  std::byte* data_;
  std::uint64_t tail_ = 0;
};

}  // namespace holdfast::comm
