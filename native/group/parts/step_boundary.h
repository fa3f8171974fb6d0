// Step boundary: this member's part in one step boundary of its group, from advance() to the view
// that begins there. The members first agree, with one small all-reduce, whether any of them has
// seen a newcomer that may be admitted; nearly always none has, and no coordinator is asked. This
// class says what comes next; the group launches the all-reduce, and asks its world.
//
// Thread: only the holder of the runtime, but for make().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "comm/call/op_work.h"

namespace holdfast::group {

class StepBoundary {
 public:
  // Members agree whether a newcomer may come in, then pass the boundary together.
  struct PendingBoundary {
    std::shared_ptr<comm::OpWork> work;    // the caller's
    std::shared_ptr<comm::OpWork> vote;    // the all-reduce of `lobby`; made when it has its number
    std::unique_ptr<std::uint64_t> lobby;  // version of the lobby that some member has seen
    Instant deadline;
    Duration timeout{};
  };
  // What comes after the vote.
  enum class Next : std::uint8_t {
    kPass,   // no newcomer waits: the boundary is passed as it is
    kFail,   // the vote's status says why
    kAdmit,  // the world makes the next view
  };
  // What the group and its world know that the vote does not.
  struct Facts {
    bool whole = false;          // the group has all ranks of its world
    bool broken = false;         // a loss has ended the step (PeerLoss::kRaise)
    std::uint64_t admitted = 0;  // version of the lobby that the view is based on
  };

  // The request of the caller's work, and of a vote on `lobby`. Any thread.
  static comm::OpRequest call(Duration timeout);
  static comm::OpRequest vote(std::uint64_t& lobby, Duration timeout);

  bool is_under_way() const { return step_.has_value(); }
  bool is_vote(const std::shared_ptr<comm::OpWork>& work) const {
    return step_ && work == step_->vote;
  }
  // `lobby`: the version that this member has seen.
  void begin(PendingBoundary step, std::uint64_t lobby);
  Next after_vote(const Status& status, const Facts& facts) const;
  // Ranks that took part in the vote.
  const std::vector<Rank>& voters() const { return step_->vote->outcome().contributors; }
  // Whether the members agreed, but nothing came of it in time.
  bool is_late(Instant now) const;
  // The members wait because somebody wants them to: their time begins anew.
  void wait_on(Instant now) { step_->deadline = now + step_->timeout; }
  Instant next_deadline() const { return step_ ? step_->deadline : Instant{Duration::max()}; }
  // Ends the boundary and returns it.
  PendingBoundary take();

 private:
  std::optional<PendingBoundary> step_;
};

// The hosts of a group's ranks, numbered in order of appearance; -1: vacant rank.
struct HostNumbers {
  std::vector<int> by_rank;
  int count = 0;
};
// No rank has come in, but some may have gone: the hosts of `ranks` only.
HostNumbers keep_hosts_of(const std::vector<Rank>& ranks, const std::vector<int>& hosts);

}  // namespace holdfast::group
