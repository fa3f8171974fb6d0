// Group: collectives that outlive members. A communicator per view; ops go from one to the next: a
// view that ends stops them, the members' reports decide their fate, and the next view repairs them
// (group_repair.h) or runs them afresh. Users see one sequence of ops.
//
// Thread: the Communicator interface any thread; all else only the holder of the runtime.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/recycler.h"
#include "comm/call/call.h"
#include "comm/call/replicated.h"
#include "comm/executor.h"
#include "comm/plan/route.h"
#include "comm/view/message_ops.h"
#include "comm/view/view_communicator.h"
#include "group/repair.h"
#include "group/report.h"
#include "group/sharing.h"

namespace holdfast::ft {

class World;

// What becomes of an op. Shared: nothing happens to most of them. Owners: the ops, and the group.
using Fate = std::shared_ptr<const OpFate>;

struct GroupConfig {
  CommId id;
  std::string name;
  Rank rank;                      // this member's
  std::vector<MemberId> members;  // by rank; MemberId{} where vacant
  std::vector<Rank> world_ranks;  // by rank
  Epoch epoch;                    // of the first view
  bool whole = false;             // has all ranks of its world
  bool shares_memory = false;     // all members do, at first; chooses the cost model
  topology::LinkModel shm_link = topology::kShmLink;
  topology::LinkModel tcp_link = topology::kTcpLink;
  std::vector<comm::HostPeer> flat;  // by rank; empty: not all members share memory, at first
  std::uint64_t slice_bytes = comm::kSliceBytes;
  Duration timeout{};
  std::string algorithm;
  comm::PeerLoss on_peer_loss = comm::PeerLoss::kContinue;
  comm::OnHole on_hole = comm::OnHole::kRaise;
  bool protect = true;
  std::uint64_t next_sequence = 0;  // of a group that runs already
  bool newcomer = false;            // its state is not the others'
  std::vector<Rank> joined;         // came in with it at the others' step boundary, itself included
};

// A view of a world, as one of its groups sees it.
struct NextView {
  Epoch epoch;
  std::vector<MemberId> members;  // by rank
  std::vector<Rank> world_ranks;  // likewise
  bool boundary = false;          // begins at a step boundary of all members
  bool may_share = false;         // its members are on one host, by their cards, and share memory
};

// A view that has begun, as far as its ops are concerned later: what came before it.
struct Entrance {
  bool settles = false;  // ops of the last view, by these:
  GroupReports reports;
  std::vector<Rank> ranks_before;
  std::vector<MemberId> members_before;
};

// How far a member has come that leaves its group. Any thread.
struct Leaving {
  std::atomic<bool> quiet{false};    // its own ops have ended
  std::atomic<bool> settled{false};  // and the others', as far as it had a part in them
  std::atomic<bool> gone{false};
  Status outcome;  // when it has settled, or gone
};

// A member that leaves, and waits to hear that this one has ended all before `next`.
struct Leaver {
  OpSeq next;
  Epoch epoch;  // its view
};

class Group final : public comm::Communicator,
                    public comm::ViewOwner,
                    public std::enable_shared_from_this<Group> {
 public:
  // `world` outlives the group.
  Group(GroupConfig config, std::shared_ptr<World> world, std::shared_ptr<comm::Executor> executor,
        std::shared_ptr<const Clock> clock);
  ~Group() override;

  // Communicator: any thread.
  Rank rank() const override { return config_.rank; }
  int size() const override;
  comm::View view() const override;
  std::vector<Rank> live_ranks() const override;
  const std::string& name() const override { return config_.name; }
  comm::Placement placement() const override;
  std::vector<int> hosts() const override;
  Epoch boundary() const override;
  comm::OnHole on_hole() const override { return config_.on_hole; }
  std::vector<std::string> transports() const override;
  Result<std::shared_ptr<comm::Work>> start(comm::OpRequest request) override;
  Result<comm::Ran> run(comm::OpRequest&& request) override;
  bool is_instant(const comm::OpRequest& request) const override;
  std::shared_ptr<comm::Work> advance(Duration timeout) override;
  bool is_newcomer() const override;
  void wake() override {
    executor_->submit([] {}, true);
  }
  void abort(const std::string& reason) override;
  Status close(Duration timeout) override;
  Status health() const override;

  // Driving thread only.
  CommId id() const { return config_.id; }
  const GroupConfig& config() const { return config_; }
  const std::shared_ptr<World>& world() const { return world_; }
  bool progress(Instant now);
  bool busy() const { return !ops_.empty() || messages_.busy() || (comm_ && comm_->urgent()); }
  comm::MemoryPoll poll_memory();
  bool moves_bulk() const;
  Instant next_deadline() const;
  bool has_member(MemberId member) const { return rank_of(member).has_value(); }
  // Whether what belongs to the member may still be in use: in this view, or the last.
  bool refers_to(MemberId member) const;
  // A process has gone without a word, or has said goodbye to this group.
  void on_died(MemberId member, const Status& why);
  void on_goodbye(MemberId member);
  // Another connection to the member took the place of one that broke; `data_lost`: with what was
  // under way.
  void on_relinked(MemberId member, bool data_lost);
  void on_sent(MemberId from, std::span<const std::byte> payload);
  void on_revoke(MemberId from, Epoch epoch, std::span<const std::byte> payload);
  void on_call(MemberId from, Epoch epoch, std::span<const std::byte> payload);
  void on_area(MemberId from, Epoch epoch, std::span<const std::byte> payload);

  // Begins to leave; the group is to be closed when the others have settled.
  void begin_leaving(std::shared_ptr<Leaving> leaving);
  // What close() says, should it go now.
  Status leaving_status() const;
  void on_closing(MemberId from, Epoch epoch, OpSeq next);
  void on_settled(MemberId from, Epoch epoch);

  // Ends the view's communicator; what this member holds. Again: says it again.
  GroupReport stop();
  bool stopped() const { return comm_ == nullptr; }
  // The view has begun, and its ops wait until the members know what memory they share.
  bool is_entering() const { return entrance_.has_value(); }
  // What the members of the view have agreed on.
  SharedMemory shared() const { return shared_; }
  // The next view, `members` by rank, and what those of the last one had reported.
  void adopt(const NextView& next, const GroupReports& reports);
  // The first view.
  void begin_view(const NextView& next);
  // This process is no member any more.
  void fence(const std::string& why);
  // A boundary: whether nothing is under way; what a joiner must know.
  bool quiet() const { return ops_.empty() && line_.empty() && !messages_.busy(); }
  // Nothing is under way that others may wait for, results served to them included. Messages
  // concern two members each and may go on through a boundary.
  bool at_rest() const { return ops_.empty() && !(comm_ && comm_->busy()); }
  GroupReport describe_self() const;
  // Members that an op waits for in vain since the last call.
  bool has_missed() const { return !missed_.empty(); }
  std::vector<MemberId> take_missed() { return std::exchange(missed_, {}); }

  // comm::ViewOwner.
  void on_op_ended(const std::shared_ptr<comm::OpWork>& work, comm::Held held) override;
  void on_stable(OpSeq through) override;
  void on_missed(Rank rank, const Status& why) override;
  void on_view_failed(const Status& status) override;

 private:
  // The residual that a encoded op leaves: it becomes the caller's when the op has ended well.
  struct Feedback {
    comm::BufferPool::Buffer memory;          // one f32 to an element of the input
    std::map<std::uint32_t, Ranges> uncoded;  // by input block: what was exchanged as it is
  };
  struct Op {
    std::shared_ptr<comm::OpWork> work;
    Instant deadline;
    Fate fate;
    bool complete = false;  // all of it was here when a view ended
    std::map<std::uint32_t, Ranges> held;
    std::vector<std::byte> saved;  // atomic, in place: its input
    Feedback feedback;
  };
  // An op that has ended here, but whose result others may still need.
  struct Kept {
    comm::OpRequest request;  // its output is `memory`
    comm::BufferPool::Buffer memory;
    Epoch completed_in;
    Fate fate;
  };
  struct FlatEnd {
    comm::Call call;
    Epoch epoch;
  };
  // A blocking call that may end without a work of its own.
  struct InlineOp {
    comm::OpRequest& request;
    std::optional<OpSeq> sequence = {};  // it has begun
    comm::Call call = {};
    comm::Ran ran = {};
    comm::OpTicket ticket = {};
  };
  // An op that has waited for some time, as it was last looked at.
  struct Watch {
    std::uint64_t number = 0;  // the observer's
    Instant seen{};
    std::vector<Rank> ranks;  // of the world
  };
  // Called, and not begun: it, or one before it, is at its gate.
  struct Waiting {
    std::shared_ptr<comm::OpWork> work;
    Instant deadline;
  };
  // A step boundary under way: members agree whether somebody may come in, then pass it together.
  struct Advance {
    std::shared_ptr<comm::OpWork> work;       // the caller's
    std::shared_ptr<comm::OpWork> agreement;  // all-reduce of `lobby`
    std::unique_ptr<std::uint64_t> lobby;     // version of the lobby that some member has seen
    Instant deadline;
  };

  void enter(const std::shared_ptr<comm::OpWork>& work);
  bool pass_line(Instant now);
  void refuse_at_gate(const comm::OpWork& work, const Status& why);
  void launch(const std::shared_ptr<comm::OpWork>& work, Instant deadline);
  void launch_message(const std::shared_ptr<comm::OpWork>& work, Instant deadline);
  void begin(Op& op);
  std::optional<Status> refusal(const Op& op) const;
  void begin_afresh(Op& op);
  void begin_repair(const std::shared_ptr<comm::OpWork>& work, const OpFate& fate,
                    Instant deadline);
  bool step(InlineOp& inline_op, bool last);
  bool is_inline_at_first(const comm::OpRequest& request) const;
  bool begin_inline(InlineOp& inline_op);
  void end_inline(InlineOp& inline_op);
  std::shared_ptr<comm::OpWork> make_work(InlineOp& inline_op) const;
  void go_on(InlineOp& inline_op);
  void note_flat_end(const comm::Call& call, Epoch epoch);
  void observe_begin(comm::OpWork& work, Instant now);
  void observe_path(const comm::OpWork& work);
  void observe_waits(Instant now);
  std::vector<Rank> collective_waits_for() const;
  void observe_end(comm::OpWork& work, const Status& status, bool repaired);
  void observe_inline_begin(InlineOp& inline_op);
  void observe_inline_end(InlineOp& inline_op);
  void observe_residual(const comm::OpRequest& request);
  void observe_view();
  void observe_failure(const Status& status);
  void save_input(Op& op);
  std::vector<float*> begin_feedback(Op& op);
  void note_uncoded(Op& op) const;
  void end_feedback(Op& op, bool well);
  void clear_vacant(const comm::OpRequest& request) const;
  void keep(const std::shared_ptr<comm::OpWork>& work);
  Status look_for_hole(const comm::OpWork& work, const OpFate& fate) const;
  void end(std::shared_ptr<comm::OpWork> work, Status status);
  void end_messages();
  std::vector<comm::HostPeer> areas_present() const;
  void make_communicator();
  void enter_view();
  void look_at_entrance(Instant now);
  void agree_on_memory(bool may_share, const GroupReports& reports);
  void begin_ops();
  comm::ViewCommunicator* entered();
  void look_at_leaving(Instant now);
  bool asks_to_leave() const;
  void note_leavers();
  bool waits_for(MemberId member) const;
  std::vector<Rank> ranks_in_doubt() const;
  void part();
  bool has_gone(MemberId member) const;
  void answer_leavers();
  void send_to(MemberId member, comm::FrameKind kind, Epoch epoch);
  void leave();
  void on_agreed(const Status& status);
  void keep_placement_of(const std::vector<Rank>& ranks);
  void end_advance(const Status& status);
  void check_advance(Instant now);
  void take_members(const NextView& next);
  void pass_boundary(const GroupReports& reports);
  std::vector<Rank> world_ranks_present() const;
  void seat_messages(const std::vector<MemberId>& before, Epoch epoch);
  void settle(const GroupReports& reports, const std::vector<Rank>& before,
              const std::vector<MemberId>& members_before);
  void settle_op(OpSeq sequence, const std::shared_ptr<Incident>& incident);
  void settle_own(Op& op, const Incident& incident);
  OpFate fate_of(const Incident& incident) const;
  const Fate& usual_fate();
  std::shared_ptr<const comm::Outcome> outcome_of(const Fate& fate) const;
  std::shared_ptr<comm::OpWork> new_work(comm::OpRequest request, OpSeq sequence) const;
  OpFate judge(const OpFate& fate, const comm::OpWork& work, const Incident& incident) const;
  void finish_on_flat(Op& op);
  void fail_stopped(Instant now);
  void fail(const Status& status);
  void publish_view(Epoch epoch);
  void publish_placement();
  Status describe(const comm::OpWork& work, const Status& cause) const {
    return describe(work, cause, epoch_);
  }
  Status describe(const comm::OpWork& work, const Status& cause, Epoch epoch) const;
  std::optional<Rank> rank_of(MemberId member) const;
  std::optional<Rank> view_rank_of(MemberId member, Epoch epoch) const;
  std::string op_text(const comm::OpWork& work) const;

  GroupConfig config_;
  // Owners: the groups of a world.
  const std::shared_ptr<World> world_;
  // Owners: every group of the node and the works they handed out.
  const std::shared_ptr<comm::Executor> executor_;
  const std::shared_ptr<const Clock> clock_;
  comm::Observer* const observer_;  // nullptr: nobody; outlives the group
  // Changes at step boundaries that somebody comes in at, when no op is called. relaxed: alone
  std::atomic<bool> shares_memory_;

  mutable std::mutex mutex_;         // guards the counters (and the order of submissions), ended_,
                                     // closed_, view_, placement_, hosts_, boundary_
  std::uint64_t next_sequence_ = 0;  // of collectives
  std::uint64_t next_message_ = 0;   // of sends and receives
  bool advancing_ = false;
  bool at_entrance_ = false;  // a newcomer that has called nothing yet but its arrival
  Status ended_;
  bool closed_ = false;
  comm::View view_;
  comm::Placement placement_;
  std::vector<int> hosts_;  // by rank, with placement_
  Epoch boundary_;          // likewise

  // Driving thread only.
  Epoch epoch_;
  std::deque<Waiting> line_;  // in call order, messages too
  Instant next_gate_look_{Duration::max()};
  std::uint64_t launched_ = 0;  // collectives that were called here
  std::optional<Advance> advance_;
  std::vector<Rank> present_;          // ranks of the view, rising
  std::vector<Rank> joined_;           // those that came in with it
  std::vector<comm::HostPeer> areas_;  // by rank; empty: none are shared
  SharedMemory shared_ = SharedMemory::kUnknown;
  Sharing sharing_;
  std::optional<Entrance> entrance_;                  // with it comm_ is nothing
  std::unique_ptr<comm::ViewCommunicator> comm_;      // nothing: stopped
  std::unique_ptr<comm::ViewCommunicator> previous_;  // stopped; its flat exchange may have results
  comm::MessageOps messages_;
  std::vector<comm::MessageOps::EndedMessage> ended_messages_;  // empty: memory for the next
  std::vector<MemberId> seated_;                                // whom messages go to, by rank
  // Owners: the group and its works. Of works, which callers may keep.
  const std::shared_ptr<Recycler> recycler_ = std::make_shared<Recycler>();
  comm::ReplicatedPool replicated_;
  std::pmr::unsynchronized_pool_resource nodes_;      // of the next two
  std::pmr::map<std::uint64_t, Op> ops_{&nodes_};     // by sequence: called, and not ended
  std::pmr::map<std::uint64_t, Kept> kept_{&nodes_};  // by sequence
  comm::BufferPool feedback_pool_;
  comm::BufferPool kept_pool_;
  std::vector<FlatEnd> flat_ends_;  // the latest two
  // Of an op that nothing is known of; of one that nothing happens to in this view, and its
  // outcome.
  const Fate unknown_ = std::make_shared<const OpFate>();
  Fate usual_;
  std::shared_ptr<const comm::Outcome> whole_;
  // Of ops that were not called here yet.
  std::map<std::uint64_t, std::vector<std::shared_ptr<Incident>>> incidents_;
  Status broken_;  // PeerLoss::kRaise: what every op until the next boundary gets
  // Owners: the group, and close(), which may return first.
  std::shared_ptr<Leaving> leaving_;
  std::set<MemberId> settled_;          // who needs nothing any more of this member, in this view
  std::map<MemberId, Leaver> leavers_;  // who waits to hear that of this member
  Instant next_closing_{};              // when those who have not answered are asked again
  bool parted_ = false;                 // it has left, and waits for those who were voted out
  std::vector<MemberId> missed_;
  Watch watch_;
  Instant next_watch_{};
  Instant next_residual_look_{};
  std::vector<std::pair<MemberId, Status>> gone_;
  std::set<MemberId> left_;  // of those in gone_: who said goodbye
};

}  // namespace holdfast::ft
