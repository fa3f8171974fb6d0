// Send side: the messages that a session sends: which of them waits for a grant or for credit, and
// whose frame goes out next.
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

// Frames that may pass the message that has waited longest; then it goes, whatever its priority.
inline constexpr std::uint32_t kMostPassed = 8;

class SendSide {
 public:
  // `controls` outlives it.
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
  // Another connection begins; what was to go over the last one fails.
  void restart(const Status& why);
  bool idle() const { return queue_.empty() && sends_.empty(); }
  bool may_have_frame() const { return !queue_.empty() || !withheld_.empty(); }

  // The next data frame; false when none can go now.
  bool next_frame(std::uint64_t max_payload, OutFrame& out);
  void sent(const OutFrame& frame);

  // What the receiver says.
  void on_grant(const FrameHeader& header);
  void on_look(const FrameHeader& header);
  // False: more than this side has spent.
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
  std::uint32_t passed_ = 0;      // frames in a row that did not come from its front
  KeyTable<SendPost*> sends_;     // incomplete ones for which no credit was spent
  std::map<std::uint64_t, SendPost*> withheld_;  // of them, those that credit would let go
  std::uint64_t last_turn_ = 0;                  // given to one of these
  Credit credit_;
  Notices grants_;
  std::size_t most_grants_ = EarlyLimits().notices;
};

}  // namespace holdfast::comm
