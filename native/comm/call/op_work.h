// The Work of a communicator's op: where the driving thread leaves the outcome and callers find it.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/executor.h"
#include "comm/observer.h"

namespace holdfast::comm {

// At this size and above, moving an op's bytes takes longer than its waits.
constexpr std::uint64_t kBulkBytes = 512 * 1024;

class OpWork final : public Work {
 public:
  OpWork(OpRequest&& request, OpSeq sequence, std::shared_ptr<Executor> executor,
         std::shared_ptr<const Clock> clock)
      : request_(std::move(request)),
        sequence_(sequence),
        executor_(std::move(executor)),
        clock_(std::move(clock)) {}

  const OpRequest& request() const { return request_; }
  // For the op's gate, before the op is launched. Driving thread only.
  OpRequest& late_request() { return request_; }

  Collective collective() const override { return request_.called_collective(); }
  OpSeq sequence() const override { return sequence_; }
  bool done() const override { return done_.load(std::memory_order_acquire); }  // acquire: results
  Status status() const override;
  Rank source() const override { return source_; }
  const Outcome& outcome() const override {
    static const Outcome kNone;  // the outcome of messages
    return outcome_ == nullptr ? kNone : *outcome_;
  }
  Status wait(Duration timeout) override;
  void tell_wait(OtherWait other) override;
  void on_done(std::function<void(const Status&)> callback) override;

  // The observer's. Written by the thread that makes the work, until it is submitted; then by the
  // driving thread, before end().
  OpTicket& ticket() { return ticket_; }
  const OpTicket& ticket() const { return ticket_; }
  // How callers have waited for the op up to now. Any thread.
  Wait waited() const;
  // The sender of what this op receives. Driving thread, before end().
  void set_source(Rank source) { source_ = source; }
  // Driving thread, before end(). Most ops of a view share one outcome. Owners: those ops, and the
  // group.
  void set_outcome(std::shared_ptr<const Outcome> outcome) { outcome_ = std::move(outcome); }
  void set_outcome(Outcome outcome) {
    set_outcome(std::make_shared<const Outcome>(std::move(outcome)));
  }
  // The status that the op ends with. Driving thread, before end().
  void settle(Status status) { settled_ = std::move(status); }
  // Publishes what was set: callbacks first, then done(). Once, with the runtime released.
  void end();

 private:
  // Below any op's start: the wait counts from the op's start on.
  static constexpr std::int64_t kFromStart = 1;

  void begin_wait(Instant now);
  void give_up_wait();

  OpRequest request_;  // as made, except for what a gate fills in
  const OpSeq sequence_;
  // Owners: every communicator of the node and the works they handed out.
  const std::shared_ptr<Executor> executor_;
  const std::shared_ptr<const Clock> clock_;

  OpTicket ticket_;
  Rank source_{-1};                         // published by done_
  Status settled_;                          // published by done_
  std::shared_ptr<const Outcome> outcome_;  // published by done_
  mutable std::mutex mutex_;                // guards status_, callbacks_, ended_
  Status status_;
  std::vector<std::function<void(const Status&)>> callbacks_;
  bool ended_ = false;
  std::atomic<bool> done_{false};
  // relaxed, all three: each is a value by itself, and giving up a wait while the op ends loses at
  // most the time of one poll.
  std::atomic<std::int64_t> waited_since_{0};  // 0: no caller waits
  std::atomic<std::int64_t> waited_earlier_{0};
  std::atomic<bool> unseen_{false};
};

}  // namespace holdfast::comm
