// Departure: how a member leaves its group. What it has ended, all others have to end the same way;
// but results of small ops are kept where they are, and what a member holds goes with it. So it
// leaves in two steps: it says which collectives it has ended, and goes when all have answered that
// they have ended these, too. Who leaves as well needs nothing. A member that does not answer is
// waited for until a decided view is without it; one that was voted out without proof of its end,
// until it has answered: it would go on alone from the older view.
//
// It says when this member may go, and answers others who want to; it does not go itself.
//
// Thread: only the holder of the runtime, but for Leaving.
// Why: docs/decisions/0094-a-leaver-asks.md
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/transport/frame.h"
#include "group/parts/roster.h"

namespace holdfast::group {

// How far a member has come that leaves its group. Any thread.
struct Leaving {
  std::atomic<bool> quiet{false};    // its own ops have ended
  std::atomic<bool> settled{false};  // and the others', as far as it had a part in them
  std::atomic<bool> gone{false};
  Status outcome;  // when it has settled, or gone
};

// What a departure has to know of the ops of its group, and of the world, and has done there.
class DepartureHost {
 public:
  virtual ~DepartureHost() = default;
  // No op is under way here, or in line.
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
  // To be called soon: the others need nothing of this member any more.
  virtual void part_soon() = 0;
  // To a member: kClosing or kSettled, as of that epoch.
  virtual void tell(MemberId member, comm::FrameKind kind, Epoch epoch) = 0;
};

class Departure {
 public:
  struct DepartureSettings {
    std::string group;  // its name
    MemberId self;
    bool protect = true;
    Duration pause{};  // until those who have not answered are asked again
  };
  // `roster` and `host` outlive it.
  Departure(DepartureSettings settings, const Roster& roster, DepartureHost& host)
      : settings_(std::move(settings)), roster_(roster), host_(host) {}

  bool is_idle() const { return !leaving_ && leavers_.empty(); }
  bool has_leavers() const { return !leavers_.empty(); }
  // It has left, and waits for those who were voted out.
  bool has_parted() const { return parted_; }
  // It parts now; false: it has done so before.
  bool part() { return !std::exchange(parted_, true); }

  // This member wants to go. Owners of `leaving`: this, and close(), which may return first.
  void begin(std::shared_ptr<Leaving> leaving, Instant now);
  // What close() says, should it go now.
  Status status() const;
  void progress(Instant now);
  Instant next_deadline() const;

  // `next`: of the collectives, the first that it has not called; its lowest 32 bits.
  void on_closing(MemberId from, Epoch epoch, OpSeq next);
  void on_settled(MemberId from, Epoch epoch);
  // What was said over the last connection to it may not have been heard.
  void on_relinked(MemberId member);
  // The roster is that of another view.
  void on_view();

 private:
  // A member that leaves, and waits to hear that this one has ended all before `next`.
  struct Leaver {
    OpSeq next;
    Epoch epoch;  // its view
  };

  bool has_settled() const { return leaving_->settled.load(std::memory_order_relaxed); }
  bool asks() const;
  void look(Instant now);
  bool waits_for(MemberId member) const;
  std::vector<Rank> ranks_in_doubt() const;
  void note_leavers();
  void answer();

  const DepartureSettings settings_;
  const Roster& roster_;
  DepartureHost& host_;
  std::shared_ptr<Leaving> leaving_;
  std::set<MemberId> settled_;          // who needs nothing any more of this member, in this view
  std::map<MemberId, Leaver> leavers_;  // who waits to hear that of this member
  Instant next_closing_{};              // when those who have not answered are asked again
  bool parted_ = false;
};

}  // namespace holdfast::group
