// Group: collectives that survive the loss of members. A communicator belongs to one view; ops go
// from one view to the next: the end of a view stops them, the members' reports decide their fate,
// and the next view repairs them (group/repair.h) or runs them afresh. Users see one sequence of
// ops.
//
// A group is made of parts (group/parts), each with its own state; this class drives them, and has
// what two of them need of each other. Why: docs/decisions/0131-a-group-is-made-of-parts.md
//
// Thread: the Communicator interface any thread; all else only the holder of the runtime.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/recycler.h"
#include "comm/call/replicated.h"
#include "comm/executor.h"
#include "comm/plan/route.h"
#include "comm/view/message_ops.h"
#include "comm/view/view_communicator.h"
#include "group/parts/caller_state.h"
#include "group/parts/departure.h"
#include "group/parts/early_notices.h"
#include "group/parts/gate_queue.h"
#include "group/parts/group_mail.h"
#include "group/parts/inline_op.h"
#include "group/parts/map_history.h"
#include "group/parts/op_table.h"
#include "group/parts/op_watch.h"
#include "group/parts/roster.h"
#include "group/parts/step_boundary.h"
#include "group/parts/view_memory.h"
#include "group/report.h"

namespace holdfast::group {

class World;

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
  comm::TakenMap map = {};           // of the world, from its first collective on
  std::vector<comm::HostPeer> flat;  // by rank; empty: not all members share memory, at first
  // Made of members of another group, without a meeting; in segments of these, by rank, it leases
  // areas. Empty: in none.
  bool derived = false;
  std::vector<comm::HostPeer> lessors = {};
  std::uint64_t slice_bytes = comm::kSliceBytes;
  Duration timeout{};
  std::string algorithm;
  comm::PeerLoss on_peer_loss = comm::PeerLoss::kContinue;
  comm::OnHole on_hole = comm::OnHole::kRaise;
  bool protect = true;
  std::uint64_t next_sequence = 0;  // of the first collective; 0 unless the group runs already
  bool newcomer = false;            // has just come in: its state differs from the others'
  // Finds plans after a loss; null: they are found when they are needed. Owners: the runtime and
  // its groups.
  std::shared_ptr<comm::Background> background = nullptr;
  // After a loss so many calls begin by what was planned before it, on all members: about what a
  // training step has, so that the full plans are found meanwhile.
  std::uint64_t calls_on_base = 64;
  std::vector<Rank> joined;  // came in at the same step boundary, this member included
};

// A view of a world, as one of its groups sees it.
struct NextView {
  Epoch epoch;
  std::vector<MemberId> members;  // by rank
  std::vector<Rank> world_ranks;  // by rank
  bool boundary = false;          // begins at a step boundary of all members
  bool may_share = false;         // its members are on one host, by their cards, and share memory
};

class Group final : public comm::Communicator,
                    public comm::ViewOwner,
                    public std::enable_shared_from_this<Group>,
                    private OpHost,
                    private DepartureHost {
 public:
  // `world` outlives the group.
  Group(GroupConfig config, std::shared_ptr<World> world, std::shared_ptr<comm::Executor> executor,
        std::shared_ptr<const Clock> clock);
  ~Group() override;

  // Communicator: any thread.
  CommId id() const override { return config_.id; }
  Rank rank() const override { return config_.rank; }
  int size() const override { return callers_.size(); }
  comm::View view() const override { return callers_.view(); }
  std::vector<Rank> live_ranks() const override { return callers_.live_ranks(); }
  const std::string& name() const override { return config_.name; }
  comm::Placement placement() const override { return callers_.placement(); }
  std::vector<int> hosts() const override { return callers_.hosts(); }
  Epoch boundary() const override { return callers_.boundary(); }
  comm::OnHole on_hole() const override { return config_.on_hole; }
  std::vector<std::string> transports() const override;
  Result<std::shared_ptr<comm::Mailbox>> mailbox() override;
  void tell_of_wait(const std::shared_ptr<comm::LongWait>& wait, comm::WaitPhase phase) override;
  Result<std::shared_ptr<comm::Work>> start(comm::OpRequest request) override;
  Result<comm::Ran> run(comm::OpRequest&& request) override;
  bool is_instant(const comm::OpRequest& request) const override;
  std::shared_ptr<comm::Work> advance(Duration timeout) override;
  comm::TakenMap map() const override { return callers_.map(); }
  Status take_map(std::shared_ptr<const std::string> text) override;
  bool is_newcomer() const override { return callers_.is_newcomer(); }
  bool is_closed() const { return callers_.is_closed(); }
  bool shares_memory() const { return shares_memory_.load(std::memory_order_relaxed); }
  void wake() override {
    executor_->submit([] {}, true);
  }
  void abort(const std::string& reason) override;
  Status close(Duration timeout) override;
  Status health() const override { return callers_.health(); }

  // Driving thread only.
  // As the group was made; its members are the roster's.
  const GroupConfig& config() const { return config_; }
  const Roster& roster() const { return roster_; }
  const std::shared_ptr<World>& world() const { return world_; }
  bool progress(Instant now);
  // Whether progress() may have anything to do, until something is called or heard.
  bool needs_turns() const;
  bool busy() const { return !ops_.empty() || messages_.busy() || (comm_ && comm_->urgent()); }
  // Whether a caller waits for mail. It drives by itself as soon as it may, so this is no reason
  // for another thread to go on driving.
  bool awaits_mail() const { return mail_.busy(); }
  comm::MemoryPoll poll_memory();
  bool moves_bulk() const { return messages_.moves_bulk() || (comm_ && comm_->moves_bulk()); }
  Instant next_deadline() const;
  bool has_member(MemberId member) const { return roster_.has(member); }
  // Whether links or memory of the member may still be in use, in this view or the last one.
  bool refers_to(MemberId member) const;
  // A process has ended without a goodbye, or has said goodbye to this group.
  void on_died(MemberId member, const Status& why);
  void on_goodbye(MemberId member);
  // A new connection to the member replaced a broken one; `data_lost`: data under way was lost.
  void on_relinked(MemberId member, bool data_lost);
  // The first connection to the member.
  void on_linked(MemberId member);
  void on_sent(MemberId from, std::span<const std::byte> payload);
  void on_mail(MemberId from, std::span<const std::byte> frame);
  void on_revoke(MemberId from, Epoch epoch, std::span<const std::byte> payload);
  void on_call(MemberId from, Epoch epoch, std::span<const std::byte> payload);
  void on_area(MemberId from, Epoch epoch, std::span<const std::byte> payload);
  void on_closing(MemberId from, const comm::FrameHeader& frame);
  void on_settled(MemberId from, const comm::FrameHeader& frame);

  // Begins to leave; the group is to be closed when the others have settled.
  void begin_leaving(std::shared_ptr<Leaving> leaving) {
    ask_for_turns();
    departure_.begin(std::move(leaving), clock_->now());
  }
  // What close() would return if the member left now.
  Status leaving_status() const { return departure_.status(); }

  // No member has begun a collective of this derived group, as far as is known here: there is no
  // communicator yet, and nothing to report.
  bool is_dormant() const { return dormant_; }
  // Of the group list.
  bool set_awake(bool awake) { return std::exchange(awake_, awake) != awake; }
  bool is_lingering() const { return lingering_; }
  void set_lingering() { lingering_ = true; }
  // Whether the other members have ended what this member has had a part in. `acts(member)`:
  // whether the member may still do anything.
  bool has_been_let_go(const std::function<bool(MemberId)>& acts);
  // Ends this member's part, of which nobody else need know. `let_go`: no other member can read its
  // leased area any more.
  void drop(bool let_go);
  // Where a group of these ranks leases its areas.
  std::vector<comm::HostPeer> lessors_of(const std::vector<Rank>& ranks) const {
    return memory_.lessors_of(ranks);
  }

  // Ends the view's communicator. Returns what this member holds; a further call returns it again.
  GroupReport stop();
  bool stopped() const { return comm_ == nullptr; }
  // The view has begun, and its ops wait until the members know what memory they share.
  bool is_entering() const { return entrance_.has_value() && !dormant_ && !memory_.is_leasing(); }
  // What the members of the view have agreed on.
  SharedMemory shared() const { return memory_.shared(); }
  // Begins the next view, `members` by rank; `reports`: what the members of the last view reported.
  void adopt(const NextView& next, const GroupReports& reports);
  // Begins the group's first view.
  void begin_view(const NextView& next);
  // This process is no member any more.
  void fence(const std::string& why);
  // Whether nothing is under way here, gate queue and messages included.
  bool quiet() const override { return ops_.empty() && gate_queue_.empty() && !messages_.busy(); }
  // Whether no op is under way that others may wait for, results served to them included. Messages
  // concern two members each and may go on through a boundary.
  bool at_rest() const { return ops_.empty() && !(comm_ && comm_->busy()); }
  // What a newcomer must know of the group, at a step boundary.
  GroupReport describe_self() const;
  // Members that an op waited for in vain since the last call.
  bool has_missed() const { return !missed_.empty(); }
  std::vector<MemberId> take_missed() { return std::exchange(missed_, {}); }

  // comm::ViewOwner.
  void on_op_ended(const std::shared_ptr<comm::OpWork>& work, comm::Held held) override {
    ops_.on_ended(work, held);
  }
  void on_stable(OpSeq through) override { ops_.on_stable(through); }
  void on_missed(Rank rank, const Status& why) override;
  void on_wanted(Rank rank) override {
    reach(roster_.present[static_cast<std::size_t>(rank.value)]);
  }
  void on_view_failed(const Status& status) override { fail(status); }

 private:
  friend class InlineOp<Group>;

  // OpHost.
  void end(std::shared_ptr<comm::OpWork> work, Status status) override;
  void end_badly(const std::shared_ptr<comm::OpWork>& work, const Status& cause) override {
    end(work, describe(*work, cause, roster_.epoch));
  }
  std::shared_ptr<comm::OpWork> make_server(const comm::OpRequest& request,
                                            OpSeq sequence) const override {
    return new_work(comm::OpRequest(request), sequence);
  }
  // DepartureHost.
  std::uint64_t first_uncalled() const override { return ops_.first_uncalled(); }
  std::uint64_t first_running() const override { return ops_.first_running(); }
  std::uint64_t first_kept() const override { return ops_.first_kept(); }
  std::vector<Rank> ranks_at_large() const override;
  void await_outcasts(Instant now) override;
  bool has_given_up() const override;
  void part_soon() override;
  void tell(MemberId member, comm::FrameKind kind, Epoch epoch) override;
  void tell_of(MemberId member, comm::FrameKind kind, Epoch epoch, std::uint64_t next,
               Ask ask) override;
  bool is_sparse() const override;
  void say(MemberId member, const comm::FrameHeader& header);
  // InlineOp.
  bool is_settling(const comm::OpRequest& request);
  bool can_begin_inline(const comm::OpRequest& request) const;
  InlineShape inline_shape(const comm::OpRequest& request) const;
  std::optional<OpSeq> number_inline() { return callers_.call_inline(*executor_); }
  void begin_inline(const comm::OpRequest& request, OpSeq number, InlineShape shape,
                    comm::OpTicket& ticket);
  bool has_ended_inline() { return comm_->ends_inline(); }
  std::shared_ptr<const comm::Outcome> end_inline(comm::OpTicket& ticket);
  std::shared_ptr<comm::OpWork> inline_work(comm::OpRequest& request, OpSeq number) const;
  std::shared_ptr<comm::Work> launch_inline(comm::OpRequest& request, OpSeq number);
  std::shared_ptr<comm::Work> go_on_inline(comm::OpRequest& request, OpSeq number,
                                           const comm::OpTicket& ticket);
  bool look_inline(OpSeq number);

  // Calls.
  std::shared_ptr<comm::OpWork> new_work(comm::OpRequest&& request, OpSeq sequence) const;
  void enter(const std::shared_ptr<comm::OpWork>& work);
  bool pass_gates(Instant now);
  void refuse_at_gate(const comm::OpWork& work, const Status& why);
  void launch(const std::shared_ptr<comm::OpWork>& work, Instant deadline);
  void end_messages();
  void leave();
  void ask_for_turns();
  comm::MemoryPoll poll_ops();
  void end_dormancy();
  std::optional<Status> close_derived(Instant deadline);
  void look_at_stepping_out();
  void step_out();
  void fail(const Status& status);
  Status describe(const comm::OpWork& work, const Status& cause, Epoch epoch) const;
  void observe_waits(Instant now);
  std::vector<Rank> collective_waits_for() const;

  // Views.
  void begin_boundary(CallerState::Boundary how, OpSeq number,
                      std::shared_ptr<StepBoundary::PendingBoundary> step, Duration timeout);
  void after_vote(const Status& status);
  void end_boundary(const Status& status);
  void take_members(const NextView& next);
  void seat_messages(const std::vector<MemberId>& before);
  void publish_placement();
  bool ends_with(const GroupReports& reports);
  void pass_boundary(const GroupReports& reports);
  void look_at_entrance(Instant now);
  void enter_view();
  comm::ViewCommunicator* entered();
  void make_communicator();
  void reach(Rank rank);
  comm::Fabrics fabrics() const;
  topology::Fabric fabric_of(const std::vector<Rank>& world_ranks) const;
  std::optional<std::vector<Rank>> base_of_plans() const;
  void note_first_call(const GroupReports& reports);
  void plan_ahead();
  void go_by_map(OpSeq first, const comm::TakenMap& taken);
  void tell_of_map();
  static void ring_all(std::vector<comm::HostPeer>& areas, Rank self);
  std::optional<Rank> view_rank_of(MemberId member, Epoch epoch) const;

  GroupConfig config_;
  // Owners: the groups of a world.
  const std::shared_ptr<World> world_;
  // Owners: every group of the node and the works they handed out.
  const std::shared_ptr<comm::Executor> executor_;
  const std::shared_ptr<const Clock> clock_;
  // Changes at step boundaries at which a rank comes in, when no op is called. relaxed: alone
  std::atomic<bool> shares_memory_;

  // Driving thread only, except what callers read.
  Roster roster_;
  CallerState callers_;
  OpWatch watch_;
  // Memory of ended works, reused. Owners: the group and its works, which callers may keep.
  const std::shared_ptr<Recycler> recycler_ = std::make_shared<Recycler>();
  comm::ReplicatedPool replicated_;
  GateQueue gate_queue_;
  OpTable ops_;
  StepBoundary boundary_;
  Departure departure_;
  ViewMemory memory_;
  MapHistory maps_;
  const std::shared_ptr<comm::MapPlans> plans_;  // owners: this and its views' communicators
  OpSeq view_first_{};  // the first call that no member had made when the view began
  comm::MessageOps messages_;
  EarlyNotices early_notices_;
  GroupMail mail_;
  std::vector<comm::MessageOps::EndedMessage> ended_messages_;  // kept empty: reused memory
  std::vector<MemberId> seated_;  // members that messages go to, by rank
  // The entrance into a view, while there is no communicator. With a change, no op of the last view
  // has been settled yet.
  struct Entrance {
    std::optional<OpTable::Change> change;
  };
  std::optional<Entrance> entrance_;
  bool dormant_;
  bool awake_ = false;
  bool lingering_ = false;
  std::shared_ptr<Leaving> stepping_out_;  // of close(), until this member's ops have ended
  std::shared_ptr<Leaving> parting_;       // of a lingering group whose members tell each other
  std::unique_ptr<comm::ViewCommunicator> comm_;      // nothing: stopped
  std::unique_ptr<comm::ViewCommunicator> previous_;  // stopped; its flat exchange may have results
  comm::Call inline_call_;                            // of the op that runs inline
  std::vector<MemberId> missed_;
};

}  // namespace holdfast::group
