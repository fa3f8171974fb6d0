// Frame order: gives frames that carry a number to a session by their numbers, for a network that
// may bring them out of order: a small message overtakes a large one, which the receiver has to
// fetch. What has come early is kept, within limits.
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

// Frames ahead of the one that is awaited, and their bytes: a sender has fewer under way. Beyond
// them it is broken or hostile.
inline constexpr std::uint64_t kMostAhead = 1024;
inline constexpr std::size_t kMostBytesAhead = 32U << 20;

class FrameOrder {
 public:
  // A frame that is here whole: delivered before this returns, or copied. kProtocolError for a
  // number that has been, or is too far ahead, and what the session says of it.
  Status take(std::uint64_t number, const FrameHeader& header, std::span<const std::byte> payload,
              Session& session);
  // A frame whose payload is about to be written to the memory that is returned, which stays where
  // it is until filled().
  Result<std::byte*> expect(std::uint64_t number, const FrameHeader& header);
  Status filled(std::uint64_t number, Session& session);

  std::uint64_t next() const { return next_; }

 private:
  struct FrameBuffer {
    std::unique_ptr<std::byte[]> memory;
    std::size_t capacity = 0;
  };
  struct EarlyFrame {
    FrameHeader header;
    FrameBuffer buffer;
    bool whole = false;
  };

  Result<EarlyFrame*> keep(std::uint64_t number, const FrameHeader& header);
  Status deliver(Session& session);
  FrameBuffer take_buffer(std::size_t bytes);

  std::uint64_t next_ = 0;
  std::map<std::uint64_t, EarlyFrame> early_;
  std::size_t early_bytes_ = 0;
  std::vector<FrameBuffer> spare_;  // large ones, for the next
};

}  // namespace holdfast::comm
