// Op table: the collectives of a group that were called here and have not ended, from view to view,
// and what is known of those that others have called. It begins them in the view's communicator, as
// their fates say, and carries out what judgement.h decides when a view has ended. It tells its
// host of ends; callers, gates, messages and views are not its business.
//
// Thread: only the holder of the runtime.
#pragma once

#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "comm/view/view_communicator.h"
#include "group/judgement.h"
#include "group/parts/fates.h"
#include "group/parts/feedback.h"
#include "group/parts/kept_results.h"
#include "group/parts/op_watch.h"
#include "group/parts/roster.h"
#include "group/report.h"

namespace holdfast::group {

// What ops need of their group.
class OpHost {
 public:
  virtual ~OpHost() = default;
  // The op has ended: end() or fail() of the table are called before this returns.
  virtual void end(std::shared_ptr<comm::OpWork> work, Status status) = 0;
  // The op has ended badly; as end(). `cause` does not name the op.
  virtual void end_badly(const std::shared_ptr<comm::OpWork>& work, const Status& cause) = 0;
  // A work for an op that has ended here and is served to others.
  virtual std::shared_ptr<comm::OpWork> make_server(const comm::OpRequest& request,
                                                    OpSeq sequence) const = 0;
};

class OpTable {
 public:
  // What the members of the last view reported, for the next view.
  struct Change {
    GroupReports reports;
    std::vector<Rank> ranks_before;
    std::vector<MemberId> members_before;
  };
  // The view's communicator, and the last view's, whose flat exchange may have results; nothing:
  // there is none.
  struct Views {
    comm::ViewCommunicator* now = nullptr;
    comm::ViewCommunicator* before = nullptr;
  };

  // `roster`, `watch` and `host` outlive it. `first`: number of the first collective.
  OpTable(const Roster& roster, bool raises_losses, std::uint64_t first, comm::Observer* observer,
          std::shared_ptr<const Clock> clock, OpWatch& watch, OpHost& host);

  bool empty() const { return ops_.empty(); }
  bool contains(OpSeq sequence) const { return ops_.contains(sequence.value); }
  // Others have called ops that this member has not called yet.
  bool awaits_calls() const { return !incidents_.empty(); }
  // The first collective that was not called here, and the first that has not ended.
  std::uint64_t first_uncalled() const { return first_uncalled_; }
  std::uint64_t first_running() const {
    return ops_.empty() ? first_uncalled_ : std::min(first_uncalled_, ops_.begin()->first);
  }
  std::uint64_t first_kept() const;
  // The oldest op that a loss may make run anew: it has not ended here, or maybe not elsewhere.
  std::uint64_t first_in_question() const;
  const std::shared_ptr<comm::OpWork>& first_work() const { return ops_.begin()->second.work; }
  // Whether the time of an op is up.
  bool is_late(Instant now) const;
  Instant next_deadline() const;

  // An op that runs in shared memory without a work of its own has begun, and has ended.
  void note_inline_begin(OpSeq sequence) {
    first_uncalled_ = std::max(first_uncalled_, sequence.value + 1);
  }
  std::shared_ptr<const comm::Outcome> note_inline_end(const comm::Call& call) {
    kept_.note_flat_end(call, roster_.epoch);
    return fates_.outcome_of(fates_.usual(roster_));
  }
  // An inline op needs a work after all.
  void add_inline(const std::shared_ptr<comm::OpWork>& work, Instant deadline);
  // The op was called here; it begins, if there is a communicator.
  void launch(const std::shared_ptr<comm::OpWork>& work, Instant deadline,
              comm::ViewCommunicator* comm);
  // A view begins that follows none: begins all ops.
  void begin_all(comm::ViewCommunicator& comm);
  // A view begins: judges every op that any member of the last one reported, in order, and then the
  // ops that no member reported.
  void settle(const Change& change, const Views& views);
  // Every op from here on ends with this status, until all members meet; ok: none.
  void set_broken(Status why) { broken_ = std::move(why); }
  const Status& broken() const { return broken_; }

  // The view's communicator has ended the op; `held`: what others hold of its result.
  void on_ended(const std::shared_ptr<comm::OpWork>& work, comm::Held held);
  void on_stable(OpSeq through) { kept_.on_stable(through); }
  // The op leaves the table, if it is in it. Sets its outcome; `hole`: its result has a hole that
  // is an error, so it ended badly.
  struct Ended {
    bool repaired = false;
    std::optional<Status> hole = {};
    Epoch epoch = {};
  };
  Ended take(comm::OpWork& work, bool well, comm::OnHole on_hole);

  // A view has ended, and stopped these ops.
  void note_stopped(std::vector<comm::Stopped> stopped);
  void report(std::vector<OpReport>& ops) const;
  // All members have ended all ops, and have one count: calls begin with this number. What the dead
  // had called beyond it is forgotten.
  void meet_at(std::uint64_t first);
  void forget_results() { kept_.clear(); }

 private:
  struct Op {
    std::shared_ptr<comm::OpWork> work;
    Instant deadline;
    Fate fate;
    bool complete = false;  // the whole result was here when a view ended
    std::map<std::uint32_t, ft::Ranges> held;
    std::vector<std::byte> saved;  // the input of an atomic op in place
    Feedback::Residual residual;
  };

  void begin(Op& op, comm::ViewCommunicator& comm);
  void begin_afresh(Op& op, comm::ViewCommunicator& comm);
  void begin_repair(const std::shared_ptr<comm::OpWork>& work, const OpFate& fate, Instant deadline,
                    comm::ViewCommunicator& comm);
  void clear_vacant(const comm::OpRequest& request) const;
  LossRules rules() const { return {roster_.members.size(), raises_losses_}; }
  Incidents gather(const Change& change);
  void settle_op(OpSeq sequence, const std::shared_ptr<Incident>& incident, const Views& views);
  void serve(OpSeq sequence, const KeptResults::Kept& kept, comm::ViewCommunicator& comm);
  void finish_on_flat(Op& op, const Views& views);

  const Roster& roster_;
  const bool raises_losses_;
  // Owners: every group of the node and the works they handed out.
  const std::shared_ptr<const Clock> clock_;
  OpWatch& watch_;
  OpHost& host_;
  std::uint64_t first_uncalled_;
  std::pmr::unsynchronized_pool_resource nodes_;   // of ops_
  std::pmr::map<std::uint64_t, Op> ops_{&nodes_};  // by sequence: called, and not ended
  KeptResults kept_;
  Fates fates_;
  Feedback feedback_;
  // For ops that were not called here yet.
  std::map<std::uint64_t, std::vector<std::shared_ptr<Incident>>> incidents_;
  Status broken_;
};

}  // namespace holdfast::group
