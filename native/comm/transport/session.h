// Session: the protocol of one link, without I/O. It matches messages by key, decides what goes out
// next, and bounds what a peer can make this side remember. Pipes (inproc, shm, tcp, ucx) only move
// its frames.
//
// Small messages are eager: sent at once, and kept by the receiver when they come early, as far as
// its peer has credit (credit.h). Large ones wait for a grant, which the receiver sends of its own
// accord when it posts, and so do small ones without credit. So a data frame always has a place to
// go, and a link never blocks behind a message that nobody has asked for yet.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0006-large-messages-wait-for-a-grant.md
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/transport/controls.h"
#include "comm/transport/credit.h"
#include "comm/transport/early.h"
#include "comm/transport/notices.h"
#include "comm/transport/send_side.h"

namespace holdfast::comm {

// Ended views whose late frames are still recognised and dropped.
inline constexpr std::size_t kMaxRetired = 4096;

// A control frame that arrived and is not the session's business: revoke, goodbye.
struct ControlFrame {
  FrameHeader header;
  std::vector<std::byte> payload;
};

class Session {
 public:
  // Before anything is posted. Both ends of a link have the same; tests have lower ones.
  void limit_early(const EarlyLimits& limits);

  // Engine side.
  void post(SendPost& post) { sending_.post(post); }
  void post(RecvPost& post);
  void resume(SendPost& post) { sending_.resume(post); }  // `ready` grew
  void resume(RecvPost& post) { grant(post); }            // `limit` grew
  void cancel(SendPost& post) { sending_.cancel(post); }
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
  // Of a session that forgets announces this asks the peer, and a later call finds the answer.
  bool has_arrived(const MessageKey& key);
  bool idle() const { return sending_.idle() && recvs_.empty(); }
  bool awaits() const { return !recvs_.empty(); }
  // Bytes of the next message, if reading them with their header costs less than a read apart.
  std::size_t worth_buffering() const;
  bool wants_to_send() const { return !controls_.empty() || sending_.may_have_frame(); }

  // Pipe side, outgoing: the next frame with at most `max_payload` bytes; false when nothing can go
  // now.
  bool next_frame(std::uint64_t max_payload, OutFrame& out);
  // The payload of a data frame has left the caller's memory.
  void sent(const OutFrame& frame) { sending_.sent(frame); }

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
  // What is kept of messages that nobody has asked for, with the overhead.
  std::uint64_t early_bytes() const { return early_.cost(); }

 private:
  enum class Target : std::uint8_t { kNone, kRecv, kEarly, kControl, kDiscard };

  Status begin_eager(const FrameHeader& header);
  Status begin_data(const FrameHeader& header);
  Status begin_receive(RecvPost& post, const FrameHeader& header, std::uint64_t room);
  void on_announce(const FrameHeader& header);
  void grant(RecvPost& post);
  void answer(RecvPost& post);
  void look_for(const MessageKey& key);
  bool looks_for(const MessageKey& key) const;
  void deliver_early(RecvPost& post, EarlyMessage early);
  void settle(std::uint64_t cost);
  void finish_frame();
  static Status broken(const std::string& what);
  bool is_retired(CommId comm, Epoch epoch) const;

  Controls controls_;
  SendSide sending_{controls_};
  std::vector<RecvPost*> recvs_;  // all incomplete receives
  EarlyLimits limits_;
  Debt debt_;
  EarlyMessages early_;
  Notices announces_;
  std::vector<MessageKey> looked_for_;  // by this process's receives, once it forgets announces
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
