// Session: the protocol of one link, without I/O. It matches messages by key, decides what goes out
// next, and bounds what a peer can make this side remember. Pipes (inproc, shm, tcp) only move its
// frames.
//
// Small messages are eager: sent at once, kept in an unexpected buffer when they come early. Large
// ones wait for a grant, which the receiver sends of its own accord when it posts; so a data frame
// always has a place to go and a link never blocks behind a message that nobody has asked for yet.
//
// Thread: only the holder of the runtime.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/transport/frame.h"
#include "comm/transport/post.h"

namespace holdfast::comm {

// Early eager messages and notices one peer may park here; a peer that exceeds them is broken or
// hostile.
inline constexpr std::uint64_t kMaxUnexpectedBytes = 256ULL << 20;
inline constexpr std::size_t kMaxNotices = 1U << 16;
inline constexpr std::size_t kMaxUnexpectedMessages = 1U << 18;
// Ended views whose late frames are still recognised and dropped.
inline constexpr std::size_t kMaxRetired = 4096;
// Frames that may pass the message that has waited longest; then it goes, whatever its priority.
inline constexpr std::uint32_t kMostPassed = 8;
// Buffers of early messages that are kept for the next.
inline constexpr std::size_t kMostSpareBuffers = 32;

struct OutFrame {
  FrameHeader header;
  std::span<const std::byte> payload;
  SendPost* post = nullptr;              // data frames
  std::vector<std::byte> owned_payload;  // control frames: payload refers to it
};

// A control frame that arrived and is not the session's business: revoke, goodbye.
struct ControlFrame {
  FrameHeader header;
  std::vector<std::byte> payload;
};

class Session {
 public:
  // Engine side.
  void post(SendPost& post);
  void post(RecvPost& post);
  void resume(SendPost& post);  // `ready` grew
  void resume(RecvPost& post);  // `limit` grew
  void cancel(SendPost& post);
  void cancel(RecvPost& post);
  // The view (comm, epoch) has ended: forget its early arrivals and drop its later frames.
  void retire(CommId comm, Epoch epoch);
  // A new connection takes the place of one that broke: what was under way over that fails, and
  // whole messages that had come stay.
  void restart(const Status& why);
  void send_control(FrameKind kind, CommId comm, Epoch epoch, std::vector<std::byte> payload);
  void send_control(const FrameHeader& header, std::vector<std::byte> payload);
  std::optional<ControlFrame> take_control();
  // Whether this message is here, or waits at the peer for a grant, with no receive posted for it.
  bool has_arrived(const MessageKey& key) const;
  bool idle() const { return sends_.empty() && recvs_.empty(); }
  bool awaits() const { return !recvs_.empty(); }
  // Bytes of the next message, if reading them with their header costs less than a read apart.
  std::size_t worth_buffering() const;
  bool wants_to_send() const { return !controls_.empty() || !sends_.empty(); }

  // Pipe side, outgoing: the next frame with at most `max_payload` bytes; false when nothing can go
  // now.
  bool next_frame(std::uint64_t max_payload, OutFrame& out);
  // The payload of a data frame has left the caller's memory.
  void sent(const OutFrame& frame);

  // Pipe side, incoming: begin_frame, then exactly payload_bytes through direct()/filled() or
  // payload().
  Status begin_frame(const FrameHeader& header);
  // Where the rest of the payload may be written directly; empty when it must go through payload().
  std::span<std::byte> direct();
  // Bytes of an element: what direct() is filled in multiples of. A result may lie over its input,
  // so an element that is half overwritten would be lost with the peer that sends it.
  std::uint64_t unit() const;
  void filled(std::uint64_t bytes);
  // Hands over payload bytes; consumes whole elements, returns how many bytes it took.
  std::uint64_t payload(std::span<const std::byte> bytes);
  std::uint64_t payload_left() const { return left_; }

  std::uint64_t dropped_frames() const { return dropped_frames_; }

 private:
  struct Unexpected {
    MessageKey key;
    std::uint32_t signature;
    std::uint64_t total_bytes;
    std::vector<std::byte> bytes;
    std::uint64_t received = 0;
  };
  // An early grant or announce.
  struct Notice {
    FrameHeader header;
  };
  enum class Target : std::uint8_t { kNone, kRecv, kUnexpected, kControl, kDiscard };

  Status begin_data(const FrameHeader& header);
  Status begin_unexpected(const FrameHeader& header);
  Status on_notice(const FrameHeader& header);
  void apply_grant(SendPost& post, const FrameHeader& grant);
  void grant(RecvPost& post);
  void deliver_unexpected(RecvPost& post, Unexpected& early);
  void finish_frame();
  static Status broken(const std::string& what);
  void enqueue(SendPost& post);
  SendPost& take_next();
  std::vector<std::byte> take_spare(std::size_t size);
  void give_spare(std::vector<std::byte> bytes);
  std::optional<FrameHeader> take_notice(FrameKind kind, const MessageKey& key);
  bool is_retired(CommId comm, Epoch epoch) const;

  // Vectors, whose memory stays from message to message.
  std::vector<OutFrame> controls_;
  std::size_t next_control_ = 0;  // those before it have gone
  std::vector<SendPost*> queue_;  // posts with bytes to send; round robin among equals
  std::uint32_t passed_ = 0;      // frames in a row that did not come from its front
  std::vector<SendPost*> sends_;  // all incomplete sends
  std::vector<RecvPost*> recvs_;  // all incomplete receives
  std::vector<Unexpected> unexpected_;
  std::vector<std::vector<std::byte>> spare_;  // of early messages that were taken
  std::uint64_t unexpected_bytes_ = 0;
  std::vector<Notice> notices_;
  std::deque<std::pair<CommId, Epoch>> retired_;
  std::deque<ControlFrame> arrived_controls_;
  std::uint64_t dropped_frames_ = 0;

  // The frame being received.
  Target target_ = Target::kNone;
  RecvPost* recv_ = nullptr;
  bool is_last_ = false;  // the message ends with it
  std::uint64_t left_ = 0;
};

}  // namespace holdfast::comm
