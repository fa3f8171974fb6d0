// Frame order: gives numbered frames to a session in the order of their numbers, for a network that
// may deliver them out of order: a small message overtakes a large one, which the receiver has to
// fetch. Frames that come early are kept, within limits.
//
// Thread: only the holder of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "comm/transport/session.h"

namespace holdfast::comm {

// Limits of frames ahead of the awaited one, and of their bytes. A correct sender has fewer under
// way, so one beyond them is broken or hostile.
inline constexpr std::uint64_t kMostAhead = 4096;
inline constexpr std::size_t kMostBytesAhead = 32U << 20;

// Memory of a frame's payload.
struct FrameBuffer {
  std::unique_ptr<std::byte[]> memory;
  std::size_t capacity = 0;
};

class FrameOrder {
 public:
  // `large`: size of the buffers that are kept for the next frames.
  explicit FrameOrder(std::size_t large = kMaxFramePayload) : large_(large) {}
  // Takes a frame that is here whole: it is delivered or copied before this returns. Returns
  // kProtocolError for a number that was used before or is too far ahead, and the session's error
  // for a bad frame.
  Status take(std::uint64_t number, const FrameHeader& header, std::span<const std::byte> payload,
              Session& session);
  // Takes a frame whose payload is yet to come: returns the memory for it, which does not move
  // until filled().
  Result<std::byte*> expect(std::uint64_t number, const FrameHeader& header);
  Status filled(std::uint64_t number, Session& session);
  // Takes a frame that is here whole, in memory of room(). One that was taken before is dropped.
  Status take(std::uint64_t number, const FrameHeader& header, FrameBuffer payload,
              Session& session);
  FrameBuffer room(std::size_t bytes);

  std::uint64_t next() const { return next_; }
  // Whether a later frame is here than the one that is awaited.
  bool is_missing() const { return !early_.empty(); }

 private:
  struct EarlyFrame {
    FrameHeader header;
    FrameBuffer buffer;
    bool whole = false;
  };

  Result<EarlyFrame*> keep(std::uint64_t number, const FrameHeader& header, FrameBuffer buffer);
  Status deliver(Session& session);
  void keep_spare(FrameBuffer buffer);

  std::size_t large_;
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, EarlyFrame> early_;
  std::size_t early_bytes_ = 0;
  std::vector<FrameBuffer> spare_;  // large buffers, for the next frames
};

}  // namespace holdfast::comm
