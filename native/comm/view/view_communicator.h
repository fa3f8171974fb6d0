// The communicator of production and simulation: runs the collectives of one view, each on its path
// (flat exchange or scheduled run), finds calls that do not match, and ends the view for all
// members when one of them cannot go on. It never changes to another view: the group above makes a
// new communicator.
//
// Thread: only the holder of the runtime.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/call/call_log.h"
#include "comm/call/op_work.h"
#include "comm/call/request_shape.h"
#include "comm/executor.h"
#include "comm/plan/route.h"
#include "comm/view/communicator_config.h"
#include "comm/view/op_runs.h"
#include "comm/view/view_notice.h"

namespace holdfast::comm {

// After so many kept ops, or bytes of them, one round tells that all members hold them.
inline constexpr std::uint32_t kKeptOps = 16;
inline constexpr std::uint64_t kKeptRoom = 256 * 1024;

// What to run in place of a collective's own schedule, for an op that an earlier view began.
struct RepairRun {
  Schedule schedule;
  Layout layout;
  bool reduces = false;  // whether anything is reduced again, on any rank
};

struct OpLaunch {
  std::shared_ptr<OpWork> work;
  // The work's request with the ranks and blocks of this view.
  std::shared_ptr<const OpRequest> request;
  Instant deadline;
  std::optional<RepairRun> repair = {};
  // By the request's input blocks, where to write the residual that the op leaves.
  std::vector<float*> feedback = {};
};

// How far a stopped op had come.
struct Stopped {
  std::shared_ptr<OpWork> work;
  bool complete = false;  // the whole result is here
  bool flat = false;
  std::vector<Execution::HeldPiece> held;
};

// What is known of the other members when an op ends well.
enum class Held : std::uint8_t {
  kEverywhere,  // all members hold the result
  kFlat,        // all members can still read what the result is made of
  kHere,        // only this member is known to hold the result
};

// The maker of the communicator.
class ViewOwner {
 public:
  virtual ~ViewOwner() = default;
  virtual void on_op_ended(const std::shared_ptr<OpWork>& work, Held held) = 0;
  // All members hold the results of all ops up to `through`.
  virtual void on_stable(OpSeq through) = 0;
  // An op waits in vain for this rank of the view.
  virtual void on_missed(Rank rank, const Status& why) = 0;
  // An op needs a link to this rank of the view, which has none: set_links() follows.
  virtual void on_wanted(Rank) {}
  // The view is over for all members; `status`, without an op's name, says why.
  virtual void on_view_failed(const Status& status) = 0;
};

class ViewCommunicator {
 public:
  ViewCommunicator(CommunicatorConfig config, ViewOwner& owner, std::shared_ptr<const Clock> clock);
  ~ViewCommunicator();
  ViewCommunicator(const ViewCommunicator&) = delete;
  ViewCommunicator& operator=(const ViewCommunicator&) = delete;

  const CommunicatorConfig& config() const { return config_; }
  Rank rank() const { return config_.rank; }
  int size() const { return static_cast<int>(config_.view.members.size()); }
  std::vector<std::string> transports() const;
  // Whether there is a link to every other rank.
  bool has_all_links() const { return unlinked_ == 0; }
  // The first link to the rank.
  void set_links(Rank rank, const MemberLinks& links);

  void launch(OpLaunch launch);
  // The plan of an op that begins here, and that check_request() accepts. Whether this rank's
  // thread may run it inline is not part of the plan: only the caller knows that.
  Plan plan_of(const OpRequest& request) {
    facts_.fabric = &config_.fabric.latest();
    return route_in_view(request, facts_, false, &last_);
  }
  // A small op without a work of its own: begin_inline() begins it, if nothing else is under way
  // and it can run in shared memory; ends_inline() is called until it has ended, or go_on() makes
  // it a launched op.
  bool can_run_inline(const OpRequest& request) const;
  // Nothing is in the way of an op.
  bool is_idle() const { return active_.empty() && !ending_ && !ended_ && !any_gone_; }
  // Whether the op can run in shared memory, in slices or inline, with nothing in its way.
  bool can_run_at_once(const OpRequest& request) const;
  // Whether the request is like the last one that ran inline, so that nothing about it need be
  // checked.
  bool is_usual(const OpRequest& request) const { return usual_ && shape_of(request) == usual_; }
  // The request was accepted, and can run inline.
  void set_usual(const OpRequest& request) { usual_ = shape_of(request); }
  // `call`: call_of() the request, which check_request() accepts.
  void begin_inline(const OpRequest& request, const Call& call);
  bool ends_inline();
  void go_on(OpLaunch launch);
  // Goes on by these, which are the same for all ops that are under way.
  void take_fabrics(Fabrics fabrics);
  // Writes an op into the log of calls that ended before this view, here or everywhere.
  void note_call(const Call& call);
  bool progress(Instant now);
  // Moves only what is in shared memory.
  MemoryPoll poll_memory();
  bool busy() const { return urgent() || !rounds_.empty(); }
  // Callers wait. Rounds in the background go on with the next op, or when there is time: waking a
  // thread for them costs small ops more than the rounds take.
  bool urgent() const { return !active_.empty() || ending_.has_value(); }
  bool has_ops() const { return !active_.empty(); }
  // The oldest of the ops under way, and the ranks of the group that it waits for.
  const OpWork* oldest() const { return active_.empty() ? nullptr : &active_.front().work(); }
  std::vector<Rank> oldest_waits_for() const;
  // Whether an op is under way that takes its time from bytes, not from latency.
  bool moves_bulk() const;
  Instant next_deadline() const { return busy() ? next_deadline_ : Instant{Duration::max()}; }

  // The member can send nothing more: ops that can end without it do.
  void on_gone(Rank rank, Status why);
  void on_revoke(Rank from, std::span<const std::byte> payload);
  // A peer has waited long in this call.
  void on_call(Rank from, std::span<const std::byte> payload);
  // Ends the view here and tells the other members. Ranks in the notice are the group's.
  void end_view(const ViewNotice& notice);
  void say_goodbye() { send_to_members(FrameKind::kGoodbye, {}); }

  // Ends the view for a new one: nothing in it moves here any more. Returns its ops.
  std::vector<Stopped> interrupt();
  // Forgets the stopped ops that were not finished.
  void abandon() { active_.clear(); }
  // Goes on with a stopped op of the flat exchange. Returns whether it has ended. In order of
  // sequence.
  bool finish_flat(const OpLaunch& launch);

 private:
  enum class OpStage : std::uint8_t { kFlat, kLinking, kRun, kRound, kHeldBack };
  struct ActiveOp {
    OpLaunch launch;
    OpStage stage = OpStage::kRun;
    std::unique_ptr<Execution> run;  // of the op, then of its round
    Instant stalls;                  // when to tell its peers what waits here
    std::uint64_t bytes = 0;
    std::uint32_t history = 0;        // of the collectives before it
    bool begun = false;               // flat: the op's turn has come
    SliceExchange* slices = nullptr;  // the exchange that the op goes, or went, through
    bool kept = false;                // the op ends without a round
    std::vector<Rank> unlinked = {};  // kLinking: ranks that it needs links to
    bool closes_batch = false;        // the op is kept, and a round for all of its batch follows
    const OpWork& work() const { return *launch.work; }
  };
  // A round that no op waits for.
  struct KeptRound {
    OpSeq through;
    std::unique_ptr<Run> run;  // nothing: earlier ops still run
  };
  // A view that is about to end: the members tell each other what they had called.
  struct Ending {
    ViewNotice notice;
    Instant deadline;
    std::vector<std::optional<CallReport>> reports;  // by rank
  };

  void make_run(ActiveOp& active, const Plan& plan);
  bool awaits_links(ActiveOp& active, const Plan& plan);
  bool begin_linked();
  void want_links(const ActiveOp& active);
  void drop_late_views(Link& link) const;
  const FusedSchedule& barrier();
  int least_priority();
  void set_ending(ActiveOp& active, OpEnding ending);
  bool advance_flat();
  bool advance_runs();
  bool advance_rounds();
  bool advance_run(ActiveOp& active);
  void next_stage(ActiveOp& active);
  std::unique_ptr<Run> make_round(OpSeq sequence, int priority);
  bool check_gone();
  void check_deadlines(Instant now);
  void time_out(const ActiveOp& active);
  void tell_call(ActiveOp& active);
  void disagree(const Disagreement& disagreement);
  void fail_op(const ActiveOp& active, ViewNotice notice);
  void end_with_reports(ViewNotice notice, OpSeq sequence);
  void report_again(OpSeq sequence);
  void report_on(OpSeq sequence);
  bool collect_reports(Instant now);
  void send_to_members(FrameKind kind, const std::vector<std::byte>& payload);
  void finish(ActiveOp& active);
  void fail_all(const Status& status);
  void retire();
  std::vector<Rank> waited_for(const ActiveOp& active) const;
  Rank group_rank(Rank rank) const { return config_.ranks[static_cast<std::size_t>(rank.value)]; }
  std::vector<Rank> group_ranks(const std::vector<Rank>& ranks) const;
  std::string op_text(const OpWork& work) const;

  CommunicatorConfig config_;
  std::vector<Link*> data_links_;
  std::size_t unlinked_ = 0;  // ranks to which there is no link
  bool links_ops_ = false;    // ops wait for links
  ViewOwner& owner_;
  const std::shared_ptr<const Clock> clock_;  // owners: the communicators of the node
  ViewFacts facts_;                           // with the fabric of the op that was launched last
  LastAnswer last_;

  OpRuns runs_;
  // In order of beginning; a vector, because its memory stays.
  std::vector<ActiveOp> active_;
  std::vector<KeptRound> rounds_;
  std::optional<FusedSchedule> barrier_;  // of rounds; made for the first
  Layout no_blocks_;                      // of the barrier
  std::uint32_t kept_ops_ = 0;            // since the last round was due, as are the bytes
  std::uint64_t kept_bytes_ = 0;
  std::uint32_t passed_ = 0;  // turns in a row in which a less urgent op had to wait
  CallLog calls_;
  std::optional<Disagreement> inline_differs_;
  std::optional<RequestShape> usual_;  // of the latest request that ran inline
  std::optional<Ending> ending_;
  bool ended_ = false;
  std::vector<Status> gone_;  // by rank; ok while present
  bool any_gone_ = false;
  Instant next_deadline_{Duration::max()};
};

}  // namespace holdfast::comm
