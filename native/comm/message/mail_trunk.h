// Mail trunk: mail frames over a link whose connection may be renewed. Frames have numbers, and the
// sender keeps each until the other end has said that it has heard it. When the connection is made
// anew, all that are kept go out again, and the other end drops those that it has heard: nothing is
// lost and nothing comes twice. It does no I/O: its owner fetches what is to go over the link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "comm/message/mail_lane.h"

namespace holdfast::comm {

// Bytes that are kept until they have been heard; beyond this, frames wait where they came from. A
// connection between hosts carries about a megabyte in a round trip. One frame always goes.
inline constexpr std::size_t kTrunkBytes = 2U << 20;

class MailTrunk final : public MailLane {
 public:
  using TrunkFrame = std::vector<std::byte>;

  // `stirred` is set whenever there is something to go out; it outlives the trunk.
  explicit MailTrunk(bool& stirred) : stirred_(stirred) {}

  std::byte* begin(const MailHeader& header) override;
  void commit() override;
  std::uint32_t most_payload() const override { return kMaxMailPayload; }
  std::uint32_t part_payload() const override { return kMaxMailPayload; }

  // Frames that are to go over the link now, in order.
  bool has_outgoing() const { return next_out_ < kept_.size() || tells_; }
  TrunkFrame take_outgoing();
  // The connection was made anew.
  void relink() {
    next_out_ = 0;
    tell();
  }
  // Sends a frame even if there is none to send: it tells what was heard, and wakes the other end.
  void tell() { tells_ = stirred_ = true; }

  struct Heard {
    MailHeader header;
    std::span<const std::byte> payload;
    bool is_new = false;  // false: there is nothing to do
  };
  // Takes a frame of the other end's take_outgoing().
  Result<Heard> hear(std::span<const std::byte> frame);

 private:
  void forget_heard(std::uint64_t until);

  bool& stirred_;
  TrunkFrame building_;
  std::deque<TrunkFrame> kept_;  // the first has number first_kept_
  std::uint64_t first_kept_ = 1;
  std::size_t next_out_ = 0;  // index in kept_ of the first that has not gone out
  std::size_t kept_bytes_ = 0;
  std::uint64_t heard_ = 0;      // number of the last frame of the other end
  std::size_t heard_bytes_ = 0;  // since the other end was told
  bool tells_ = false;           // the other end is to be told, even without a frame to send
};

}  // namespace holdfast::comm
