// Departure: how a member leaves its group. What it has ended, all others have to end the same way;
// but results of small ops are kept where they are, and what a member holds goes with it. So it
// leaves in two steps: it says which collectives it has ended, and goes when all have answered that
// they have ended these, too. A member that leaves as well needs no answer. A member that does not
// answer is waited for until a decided view is without it; a member that was voted out without
// proof of its end, until it has answered: it would go on alone from the older view.
//
// In a sparse world a leaver asks one member, the first that is there, and that one asks all others
// on behalf of all leavers: no two others need a connection for it.
//
// This class says when the member may go, and answers others that want to go; it does not end the
// group.
//
// Thread: only the holder of the runtime, but for Leaving.
// Why: docs/decisions/0094-a-leaver-asks.md
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/transport/frame.h"
#include "group/parts/roster.h"

namespace holdfast::group {

// How far a leaving member has come. Any thread.
struct Leaving {
  std::atomic<bool> quiet{false};    // its own ops have ended
  std::atomic<bool> settled{false};  // so have the others', as far as it had a part in them
  std::atomic<bool> gone{false};
  Status outcome;  // set once settled or gone
};

// What a kClosing asks, and a kSettled answers; a frame's ordinal.
enum class Ask : std::uint32_t {
  kForSelf,    // the sender leaves
  kForOthers,  // others leave, and the sender asks for them
  kEnded,      // the answer of one who has no part in the group any more
  kForAll,     // of who speaks for all and leaves: all members have ended what is named
};

// What a departure needs of the ops of its group, and of the world.
class DepartureHost {
 public:
  virtual ~DepartureHost() = default;
  // No op is under way here, or in the gate queue.
  virtual bool quiet() const = 0;
  // Not ok: the group has ended.
  virtual Status health() const = 0;
  // The first collective that was not called here, the first that has not ended, and the first
  // whose result others may lack.
  virtual std::uint64_t first_uncalled() const = 0;
  virtual std::uint64_t first_running() const = 0;
  virtual std::uint64_t first_kept() const = 0;
  virtual std::vector<Rank> ranks_at_large() const = 0;
  virtual void await_outcasts(Instant now) = 0;
  virtual bool has_given_up() const = 0;
  // Leaves the group soon: the others need nothing of this member any more.
  virtual void part_soon() = 0;
  // Sends kClosing or kSettled, of that epoch, to a member.
  virtual void tell(MemberId member, comm::FrameKind kind, Epoch epoch) = 0;
  // Whether members are connected only where they need it.
  virtual bool is_sparse() const { return false; }
  // As tell(), of the collectives before `next`.
  virtual void tell_of(MemberId, comm::FrameKind, Epoch, std::uint64_t /*next*/, Ask) {}
};

class Departure {
 public:
  struct DepartureSettings {
    std::string group;  // its name
    MemberId self;
    bool protect = true;
    Duration pause{};  // until members that have not answered are asked again
  };
  // `roster` and `host` outlive it.
  Departure(DepartureSettings settings, const Roster& roster, DepartureHost& host)
      : settings_(std::move(settings)), roster_(roster), host_(host) {}

  bool is_idle() const { return !leaving_ && leavers_.empty() && probes_.empty(); }
  bool has_leavers() const { return !leavers_.empty(); }
  // This member has left, and waits for those that were voted out.
  bool has_parted() const { return parted_; }
  // Leaves now; false: it has left before.
  bool part() { return !std::exchange(parted_, true); }

  // This member wants to go. Owners of `leaving`: this, and close(), which may return first.
  void begin(std::shared_ptr<Leaving> leaving, Instant now);
  // What close() would return if the member left now.
  Status status() const;
  void progress(Instant now);
  Instant next_deadline() const;

  // `next`: the first collective that `from` has not called; its lowest 32 bits.
  void on_closing(MemberId from, Epoch epoch, OpSeq next, Ask ask = Ask::kForSelf);
  void on_settled(MemberId from, Epoch epoch, OpSeq next = {}, Ask ask = Ask::kForSelf);
  // Frames sent over the last connection to the member may not have been heard.
  void on_relinked(MemberId member);
  // The roster is that of another view.
  void on_view();

 private:
  // A leaving member that waits to hear that this one has ended all collectives before `next`.
  struct Leaver {
    OpSeq next;
    Epoch epoch;  // its view
  };

  bool has_settled() const { return leaving_->settled.load(std::memory_order_relaxed); }
  bool asks() const;
  void look(Instant now);
  bool waits_for(MemberId member) const;
  std::vector<Rank> awaited() const;
  std::vector<Rank> ranks_in_doubt() const;
  void note_leavers();
  void answer();
  OpSeq whole(OpSeq next) const;
  bool has_ended(const Leaver& asked) const;
  // Of a sparse world.
  MemberId asked() const;
  void tell_all();
  bool is_asked() const { return host_.is_sparse() && asked() == settings_.self; }
  bool has_confirmed(MemberId member, OpSeq next) const;
  std::vector<MemberId> who_lack(OpSeq next) const;
  void ask_for_leavers(Instant now);
  void answer_probes();

  const DepartureSettings settings_;
  const Roster& roster_;
  DepartureHost& host_;
  std::shared_ptr<Leaving> leaving_;
  std::set<MemberId> settled_;           // members that need nothing more of this one, in this view
  std::map<MemberId, Leaver> leavers_;   // members that wait for this one's kSettled
  std::map<MemberId, Leaver> probes_;    // as leavers_, who ask for others
  std::map<MemberId, OpSeq> confirmed_;  // before which a member has ended all, in this view
  // In this view: who speaks for all has answered this leaver; before which collective all members
  // have ended all.
  bool let_go_ = false;
  std::optional<OpSeq> ended_by_all_;
  Instant next_probe_{};
  Instant next_closing_{};  // when members that have not answered are asked again
  bool parted_ = false;
};

}  // namespace holdfast::group
