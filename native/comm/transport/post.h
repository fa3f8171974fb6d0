// Posts: messages that the engine asks a link to send or receive. A post belongs to the engine,
// lives until it is complete, failed or cancelled, and is only touched by the thread that holds the
// runtime.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "comm/reduce/reducer.h"
#include "comm/reduce/weighing.h"
#include "comm/transport/frame.h"

namespace holdfast::comm {

// Messages up to this size are sent without waiting for the receiver's grant, while there is
// credit.
inline constexpr std::uint64_t kEagerBytes = 64 * 1024;

// A message that streams behind its producer goes out in multiples of this many bytes: they hold
// whole elements, and such frames are worth their header.
inline constexpr std::uint64_t kStreamBytes = 16 * 1024;

// State common to both directions. `window` > 0: the memory is a ring of that many bytes through
// which a larger message streams (a partial sum that is forwarded); 0: the memory holds the whole
// message.
struct Post {
  MessageKey key;
  std::uint32_t signature = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t window = 0;
  std::uint64_t done = 0;   // send: bytes no longer needed; recv: bytes delivered
  bool* touched = nullptr;  // set whenever done or failure changes
  bool posted = false;
  bool finished = false;  // all bytes moved; an empty message still has to be sent and to arrive
  bool failed = false;
  Status failure;

  bool eager() const { return total_bytes <= kEagerBytes; }
  bool matches(const FrameHeader& header) const {
    return total_bytes == header.total_bytes && signature == header.signature;
  }
  // The error for a frame of this message that does not match.
  Status mismatch(const FrameHeader& header) const;
  void fail(Status why) {
    failed = true;
    failure = std::move(why);
    *touched = true;
  }

 protected:
  // The longest contiguous run at cursor `at`, at most `length` bytes.
  std::uint64_t contiguous(std::uint64_t at, std::uint64_t length) const {
    return window == 0 ? length : std::min(length, window - at % window);
  }
  std::uint64_t place(std::uint64_t at) const { return window == 0 ? at : at % window; }
};

struct SendPost : Post {
  const std::byte* data = nullptr;
  int priority = 0;           // higher goes first
  std::uint64_t ready = 0;    // bytes of the source that hold their value; grows
  std::uint64_t granted = 0;  // bytes the receiver has room for; grows
  bool unasked = false;       // goes out without a grant: credit was taken for it
  bool welcome = false;       // there was a grant, or credit was taken
  bool told_again = false;    // it was announced again to a peer that looked for it
  std::uint64_t turn = 0;     // among those without credit; 0: not one of them
  // Bytes at the end of total_bytes that are not sent: the receiver learns of them with the last
  // frame.
  std::uint64_t unused = 0;
  std::uint64_t issued = 0;  // bytes given to the link
  bool queued = false;       // is in the session's send queue
  bool announced = false;    // at least one frame was made

  std::uint64_t length() const { return total_bytes - unused; }
  std::uint64_t sendable() const {
    const std::uint64_t end = std::min({ready, granted, length()});
    return (end == length() ? end : end / kStreamBytes * kStreamBytes) - issued;
  }
  bool has_frame() const { return sendable() > 0 || (total_bytes == 0 && welcome && !announced); }
  std::span<const std::byte> next(std::uint64_t limit) const {
    return {data + place(issued), contiguous(issued, std::min(limit, sendable()))};
  }
};

// What to do with arriving bytes: copy them, or combine them with an operand of the same shape.
struct Combine {
  Reducer kernel;                 // none: copy
  DivideKernel divide = nullptr;  // averages: applied to the final sum
  std::uint32_t divisor = 1;
  std::uint32_t element_bytes = 1;
  const std::byte* operand = nullptr;  // whole message, never windowed
  bool operand_first = false;          // operand (op) arriving, else arriving (op) operand
  // Weighted averages: the operand's scale, and in place of `divide` what a final sum goes through.
  DType dtype = DType::kF32;
  double scale = 1;
  ShareKernel share = nullptr;
  double total = 1;

  // What becomes of a final sum.
  void finish(std::byte* sum, std::uint64_t count) const {
    if (divide != nullptr) divide(sum, count, divisor);
    if (share != nullptr) share(sum, count, total);
  }
};

struct RecvPost : Post {
  std::byte* data = nullptr;
  Combine combine;
  std::uint64_t limit = 0;    // bytes that may be delivered; grows
  std::uint64_t granted = 0;  // bytes the sender was told of
  bool answered = false;      // the sender's kAsk was answered
  // Whether total_bytes is only the most that the message may have: `done` is its size when it is
  // finished.
  bool may_end_early = false;

  // Delivers `bytes` at the cursor; their number is a multiple of the element size.
  void deliver(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::uint64_t run = contiguous(done, bytes.size());
      store(data + place(done), bytes.first(run));
      done += run;
      bytes = bytes.subspan(run);
    }
    finished = done == total_bytes;
    *touched = true;
  }

 private:
  void store(std::byte* to, std::span<const std::byte> bytes) const;
};

}  // namespace holdfast::comm
