// Ring: one direction of a shared-memory link, a single-producer single-consumer queue of frames. A
// frame lies in one piece, so that its payload can be reduced where it is. The other side is
// another process, and nothing that it writes is trusted (cursors and headers are copied, then
// checked).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "comm/transport/frame.h"
#include "comm/transport/post.h"

namespace holdfast::comm {

// The two rings of a link take two megabytes, which stay in a core's L2 while they stream.
inline constexpr std::size_t kRingBytes = 1 << 20;
inline constexpr std::uint64_t kRingFramePayload = 128 * 1024;

struct RingCursors {
  alignas(64) std::atomic<std::uint64_t> head;  // producer: bytes ever written
  alignas(64) std::atomic<std::uint64_t> tail;  // consumer: bytes ever read
  std::atomic<std::uint32_t> producer_waits;    // producer found no room
};
inline constexpr std::size_t kRingDataAt = 4096;
inline constexpr std::size_t kRingSegmentBytes = kRingDataAt + kRingBytes;
// Bytes of data that a ring has before there is much to carry: enough for two frames with the
// largest message that fits in one frame. Otherwise each link to a rank of the host would take two
// megabytes, though few ever carry much.
inline constexpr std::size_t kRingFirstBytes = 132 * 1024;
static_assert(kRingFirstBytes > 2 * (kEagerBytes + 64) + 64);
static_assert(sizeof(RingCursors) <= 4096);

// The producer's side. `memory` has kRingSegmentBytes, zero-filled when it was made. Only the first
// `ready` bytes of its data can be used: at their end the ring goes on from the start.
class RingWriter {
 public:
  explicit RingWriter(std::byte* memory, std::size_t ready = kRingBytes);
  // Copies the frame in and publishes it; false when there is no room.
  bool write(const FrameHeader& header, std::span<const std::byte> payload);
  bool has_room(std::uint64_t payload_bytes);
  // Most payload bytes of one frame.
  std::uint64_t most_payload() const { return most_payload_; }
  std::size_t ready() const { return ready_; }
  void set_ready(std::size_t bytes);

 private:
  std::uint64_t needs(std::uint64_t frame) const;
  bool has(std::uint64_t room) const;
  std::uint64_t place(std::uint64_t bytes);

  RingCursors* cursors_;
  std::byte* data_;
  std::size_t ready_ = 0;
  std::uint64_t end_ = 0;  // end of the bytes in which frames may lie
  std::uint64_t most_payload_ = 0;
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
  // The next frame, nothing when the ring is empty, or kProtocolError for content that no correct
  // producer writes.
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
