// Send side: the messages that a session sends. It knows which of them wait for a grant or for
// credit, and chooses the message whose frame goes out next.
//
// Thread: only the holder of the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "comm/transport/controls.h"
#include "comm/transport/credit.h"
#include "comm/transport/notices.h"

namespace holdfast::comm {

// How many frames may pass the message that has waited longest; then that one goes, whatever its
// priority.
inline constexpr std::uint32_t kMostPassed = 8;

class SendSide {
 public:
  // `controls` outlives the send side.
  explicit SendSide(Controls& controls) : controls_(controls) {}
  SendSide(const SendSide&) = delete;
  SendSide& operator=(const SendSide&) = delete;

  void limit_early(const EarlyLimits& limits) {
    credit_ = Credit(limits.bytes);
    most_grants_ = limits.notices;
  }

  void post(SendPost& post);
  void resume(SendPost& post) { enqueue(post); }
  void cancel(SendPost& post);
  void retire(CommId comm, Epoch epoch) { grants_.retire(comm, epoch); }
  // Called when another connection begins; messages that were to go over the last one fail.
  void restart(const Status& why);
  bool idle() const { return queue_.empty() && sends_.empty(); }
  bool may_have_frame() const { return !queue_.empty() || !withheld_.empty(); }

  // The next data frame; false when none can go now.
  bool next_frame(std::uint64_t max_payload, OutFrame& out);
  void sent(const OutFrame& frame);

  // Frames from the receiver.
  void on_grant(const FrameHeader& header);
  void on_look(const FrameHeader& header);
  // False: `bytes` is more credit than this side has spent.
  bool on_credit(std::uint64_t bytes) { return credit_.give_back(bytes); }

 private:
  void enqueue(SendPost& post);
  SendPost& take_next();
  void apply_grant(SendPost& post, const FrameHeader& grant);
  void announce(const SendPost& post);
  bool spend_credit(SendPost& post);
  void admit_withheld();
  void forget(const SendPost& post);

  Controls& controls_;
  std::vector<SendPost*> queue_;  // posts with bytes to send; round robin among equals
  std::uint32_t passed_ = 0;      // frames in a row that were not from the queue's front
  KeyTable<SendPost*> sends_;     // incomplete posts for which no credit was spent
  std::map<std::uint64_t, SendPost*> withheld_;  // by turn: those of `sends_` that wait for credit
  std::uint64_t last_turn_ = 0;                  // last turn given to a post in withheld_
  Credit credit_;
  Notices grants_;
  std::size_t most_grants_ = EarlyLimits().notices;
};

}  // namespace holdfast::comm
