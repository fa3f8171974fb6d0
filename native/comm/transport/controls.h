// Controls: control frames of a link that wait to go out. Messages do not hold them up: control
// frames go first.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "comm/transport/frame.h"
#include "comm/transport/post.h"

namespace holdfast::comm {

struct OutFrame {
  FrameHeader header;
  std::span<const std::byte> payload;
  SendPost* post = nullptr;              // data frames
  std::vector<std::byte> owned_payload;  // control frames: payload refers to it
};

class Controls {
 public:
  bool empty() const { return frames_.empty(); }
  void push(OutFrame frame) { frames_.push_back(std::move(frame)); }
  // Queues a frame about a message, which its post names.
  void tell(FrameKind kind, const Post& post, std::uint64_t offset) {
    OutFrame out;
    out.header = {kind, 0, post.key, post.signature, offset, post.total_bytes};
    frames_.push_back(std::move(out));
  }
  // Takes the frame that has waited longest; there must be one.
  void pop(OutFrame& out) {
    out = std::move(frames_[next_++]);
    out.payload = out.owned_payload;
    const bool many_gone = next_ >= kMostGone && 2 * next_ >= frames_.size();
    if (next_ != frames_.size() && !many_gone) return;
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
  }

 private:
  // Frames that have gone before their places are used again.
  static constexpr std::size_t kMostGone = 64;

  std::vector<OutFrame> frames_;  // its memory is kept between frames
  std::size_t next_ = 0;          // index of the next frame; those before it have gone
};

}  // namespace holdfast::comm
