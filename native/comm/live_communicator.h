// The communicator of production and simulation: starts ops on their path (flat exchange or
// scheduled run), drives them, and ends the view for everybody when one member cannot go on.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/communicator.h"
#include "comm/engine/buffer_pool.h"
#include "comm/engine/flat_exchange.h"
#include "comm/engine/run.h"
#include "comm/executor.h"
#include "comm/op_work.h"
#include "comm/view_notice.h"
#include "topology/cost_model.h"

namespace holdfast::comm {

// The links to one member: where data goes, and the one that carries notices and dies with the
// peer.
struct MemberLinks {
  Link* data = nullptr;
  Link* control = nullptr;
};

struct CommunicatorConfig {
  CommId id;
  View view;
  Rank rank;
  std::string name;
  std::vector<MemberLinks> links;  // by rank; own entry empty
  std::optional<FlatExchange> flat;
  topology::LinkModel link_model;
  Duration timeout{};
  std::string algorithm;
};

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
  void abort(const std::string& reason) override;
  Status close(Duration timeout) override;
  Status health() const override;

  // Driving thread only.
  CommId id() const { return config_.id; }
  bool progress(Instant now);
  bool busy() const { return !active_.empty(); }
  // Whether an op is under way whose bytes, not whose latency, take the time.
  bool moves_bulk() const;
  Instant next_deadline() const { return next_deadline_; }
  // The peer died or left; ops that can end without it do, then the view ends.
  void on_gone(Rank rank, Status why);
  void on_revoke(Rank from, std::span<const std::byte> payload);
  // Ends the view here and tells the other members.
  void end_view(const ViewNotice& notice);
  void unlink_flat() {
    if (config_.flat) config_.flat->unlink_own();
  }

 private:
  struct Active {
    std::shared_ptr<OpWork> work;
    std::unique_ptr<Run> run;  // nothing: goes through the flat exchange
    Instant deadline;
    std::uint64_t bytes = 0;
    bool begun = false;  // flat: its turn has come
  };

  void launch(const std::shared_ptr<OpWork>& work);
  std::unique_ptr<Run> make_run(const OpWork& work);
  const Schedule& schedule_for(const OpRequest& request);
  std::uint64_t next_message(const OpRequest& request);
  bool advance_flat();
  bool advance_runs();
  bool check_gone();
  void check_deadlines(Instant now);
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
  BufferPool pool_;
  std::map<std::tuple<Collective, std::string, int>, Schedule> schedules_;
  std::map<std::tuple<Collective, int, std::uint32_t>, std::uint32_t> messages_;
  std::vector<Status> gone_;  // by rank; ok while present
  bool any_gone_ = false;
  Instant next_deadline_{Duration::max()};
};

}  // namespace holdfast::comm
