// The communicator of production and simulation: starts ops on their path (flat exchange or
// scheduled run), drives them, and ends the view for everybody when one member cannot go on.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/call_log.h"
#include "comm/communicator_config.h"
#include "comm/executor.h"
#include "comm/op_runs.h"
#include "comm/op_work.h"
#include "comm/view_notice.h"

namespace holdfast::comm {

class LiveCommunicator final : public Communicator,
                               public std::enable_shared_from_this<LiveCommunicator> {
 public:
  LiveCommunicator(CommunicatorConfig config, std::shared_ptr<Executor> executor,
                   std::shared_ptr<const Clock> clock);
  ~LiveCommunicator() override;

  // Communicator: any thread.
  Rank rank() const override { return config_.rank; }
  int size() const override { return static_cast<int>(config_.view.members.size()); }
  const View& view() const override { return config_.view; }
  const std::string& name() const override { return config_.name; }
  std::vector<std::string> transports() const override;
  Result<std::shared_ptr<Work>> start(OpRequest request) override;
  void wake() override {
    executor_->submit([] {}, true);
  }
  void abort(const std::string& reason) override;
  Status close(Duration timeout) override;
  Status health() const override;

  // Driving thread only.
  CommId id() const { return config_.id; }
  bool progress(Instant now);
  bool busy() const { return !active_.empty() || ending_.has_value(); }
  // Whether an op is under way whose bytes, not whose latency, take the time.
  bool moves_bulk() const;
  Instant next_deadline() const { return next_deadline_; }
  enum class Gone : std::uint8_t { kDied, kLeft };
  // Ops that can end without the peer do, then the view ends.
  void on_gone(Rank rank, Gone how, Status why);
  void on_revoke(Rank from, std::span<const std::byte> payload);
  // A peer has waited long in this call.
  void on_call(Rank from, std::span<const std::byte> payload);
  // Ends the view here and tells the other members.
  void end_view(const ViewNotice& notice);
  void unlink_flat() {
    if (config_.flat) config_.flat->unlink_own();
  }

 private:
  struct Active {
    std::shared_ptr<OpWork> work;
    std::unique_ptr<Run> run;  // nothing: on the flat exchange, or unbound
    Instant deadline;
    Instant stalls;  // from then on its peers are told what waits here
    std::uint64_t bytes = 0;
    std::uint32_t history = 0;  // of the collectives before it
    bool begun = false;         // flat: its turn has come
    bool unbound = false;       // a receive that does not know its source yet
  };
  // A view that is about to end: the members tell each other what they had called.
  struct Ending {
    ViewNotice notice;
    Instant deadline;
    std::vector<std::optional<CallReport>> reports;  // by rank
  };

  void launch(const std::shared_ptr<OpWork>& work);
  bool advance_flat();
  bool advance_runs();
  bool bind_receives();
  bool check_gone();
  void check_deadlines(Instant now);
  void time_out(const Active& active);
  void tell_call(Active& active);
  void disagree(const Disagreement& disagreement);
  void fail_op(const Active& active, ViewNotice notice);
  void end_with_reports(ViewNotice notice, OpSeq sequence);
  void report_again(OpSeq sequence);
  bool collect_reports(Instant now);
  void send_to_members(FrameKind kind, const std::vector<std::byte>& payload);
  void finish(Active& active, Status status);
  void fail_all(const Status& status);
  void leave();
  std::vector<Rank> waited_for(const Active& active) const;
  Status describe(const OpWork& work, const Status& cause, std::vector<Rank> ranks) const;
  std::string op_text(const OpWork& work) const;

  CommunicatorConfig config_;
  std::vector<Link*> data_links_;
  // Owners: every communicator of the node and the works they handed out.
  const std::shared_ptr<Executor> executor_;
  const std::shared_ptr<const Clock> clock_;

  mutable std::mutex
      mutex_;  // guards the two counters (and the order of submissions), ended_, closed_
  std::uint32_t next_sequence_ = 0;  // of collectives
  std::uint32_t next_message_ = 0;   // of sends and receives
  Status ended_;
  bool closed_ = false;

  // Driving thread only.
  std::vector<Active> active_;
  OpRuns runs_;
  CallLog calls_;
  std::optional<Ending> ending_;
  std::vector<Status> gone_;  // by rank; ok while present
  bool any_gone_ = false;
  bool any_died_ = false;
  Instant next_deadline_{Duration::max()};
};

}  // namespace holdfast::comm
