// Session: the protocol of one link, without I/O. It matches messages by key, decides what goes out
// next, and bounds what a peer can make this side remember. Pipes (inproc, shm, tcp, ucx) only move
// its frames.
//
// Small messages are eager: they are sent at once as far as the sender has credit (credit.h), and
// the receiver keeps those that come early. Large messages wait for a grant, which the receiver
// sends of its own accord when it posts, and so do small ones without credit. So a data frame
// always has a place to go, and a link never blocks behind a message for which no receive is posted
// yet.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0006-large-messages-wait-for-a-grant.md
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "comm/transport/controls.h"
#include "comm/transport/credit.h"
#include "comm/transport/early.h"
#include "comm/transport/notices.h"
#include "comm/transport/send_side.h"

namespace holdfast::comm {

// Ended views whose late frames are still recognised and dropped.
inline constexpr std::size_t kMaxRetired = 4096;

// A received control frame that the session does not handle itself: revoke, goodbye.
struct ControlFrame {
  FrameHeader header;
  std::vector<std::byte> payload;
};

class Session {
 public:
  // To be called before anything is posted. Both ends of a link have the same limits; tests have
  // lower ones.
  void limit_early(const EarlyLimits& limits);

  // Engine side.
  void post(SendPost& post) { sending_.post(post); }
  void post(RecvPost& post);
  void resume(SendPost& post) { sending_.resume(post); }  // `ready` grew
  void resume(RecvPost& post) { grant(post); }            // `limit` grew
  void cancel(SendPost& post) { sending_.cancel(post); }
  void cancel(RecvPost& post);
  // The view (comm, epoch) has ended: the session forgets its early messages and drops its later
  // frames.
  void retire(CommId comm, Epoch epoch);
  // A new connection takes the place of one that broke: messages under way over the old one fail,
  // and whole messages that had come stay.
  void restart(const Status& why);
  void send_control(FrameKind kind, CommId comm, Epoch epoch, std::vector<std::byte> payload);
  void send_control(const FrameHeader& header, std::vector<std::byte> payload);
  std::optional<ControlFrame> take_control();
  // Whether this message is here, or waits at the peer for a grant, with no receive posted for it.
  // A session that forgets announces asks the peer, and a later call finds the answer.
  bool has_arrived(const MessageKey& key);
  bool idle() const { return sending_.idle() && recvs_.empty(); }
  bool awaits() const { return !recvs_.empty(); }
  // How many bytes of the next message are worth reading together with its header, because that
  // costs less than a separate read.
  std::size_t worth_buffering() const;
  bool wants_to_send() const { return !controls_.empty() || sending_.may_have_frame(); }

  // Pipe side, outgoing: gives the next frame, with at most `max_payload` bytes; false when none
  // can go now.
  bool next_frame(std::uint64_t max_payload, OutFrame& out);
  // Likewise, but no frame of a message.
  bool next_control(OutFrame& out);
  // The payload of a data frame has left the caller's memory.
  void sent(const OutFrame& frame) { sending_.sent(frame); }

  // Pipe side, incoming: begin_frame, then exactly payload_bytes through direct()/filled() or
  // payload().
  Status begin_frame(const FrameHeader& header);
  // Memory to which the rest of the payload may be written directly; empty when it must go through
  // payload().
  std::span<std::byte> direct();
  // Bytes of an element; direct() is filled in multiples of this. A result may lie over its input,
  // so a half overwritten element would be lost if the peer that sends it died.
  std::uint64_t unit() const;
  void filled(std::uint64_t bytes);
  // Hands over payload bytes; consumes whole elements, returns how many bytes it took.
  std::uint64_t payload(std::span<const std::byte> bytes);
  std::uint64_t payload_left() const { return left_; }

  std::uint64_t dropped_frames() const { return dropped_frames_; }
  // Bytes kept of messages for which no receive is posted, with the overhead.
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
  std::vector<MessageKey> looked_for_;  // keys that receives look for, once announces are forgotten
  // In order of their ends, and to look them up: each frame asks.
  using EndedView = std::pair<CommId, Epoch>;
  struct EndedViewHash {
    std::size_t operator()(const EndedView& view) const {
      return static_cast<std::size_t>(view.first.value ^ std::uint64_t{view.second.value} << 32);
    }
  };
  std::deque<EndedView> retired_;
  std::unordered_set<EndedView, EndedViewHash> retired_views_;
  std::deque<ControlFrame> arrived_controls_;
  std::uint64_t dropped_frames_ = 0;

  // The frame being received.
  Target target_ = Target::kNone;
  RecvPost* recv_ = nullptr;
  bool is_last_ = false;  // the message ends with this frame
  std::uint64_t left_ = 0;
};

}  // namespace holdfast::comm
