// Step boundary: this member's part in one step boundary of its group, from advance() to the view
// that begins there. The members first agree, with one small all-reduce, whether anybody has seen a
// newcomer that may be admitted; nearly always nobody has, and no coordinator is asked. It says
// what is to come; the group launches the all-reduce, and asks its world.
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
  // Members agree whether somebody may come in, then pass it together.
  struct PendingBoundary {
    std::shared_ptr<comm::OpWork> work;    // the caller's
    std::shared_ptr<comm::OpWork> vote;    // the all-reduce of `lobby`; made when it has its number
    std::unique_ptr<std::uint64_t> lobby;  // version of the lobby that some member has seen
    Instant deadline;
  };
  // What comes after the vote.
  enum class Next : std::uint8_t {
    kPass,   // nobody waits: it is passed as it is
    kFail,   // the vote's status says why
    kAdmit,  // the world makes the next view
  };
  // What the group and its world know that the vote does not.
  struct Facts {
    bool whole = false;          // the group has all ranks of its world
    bool broken = false;         // a loss has ended the step (PeerLoss::kRaise)
    std::uint64_t admitted = 0;  // version of the lobby that the view is of
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
  // Who took part in the vote.
  const std::vector<Rank>& voters() const { return step_->vote->outcome().contributors; }
  // The members agreed, but nothing came of it.
  bool is_late(Instant now) const;
  Instant next_deadline() const { return step_ ? step_->deadline : Instant{Duration::max()}; }
  // It has ended.
  PendingBoundary take();

 private:
  std::optional<PendingBoundary> step_;
};

// The hosts of a group's ranks, numbered as they appear; -1: nobody there.
struct HostNumbers {
  std::vector<int> by_rank;
  int count = 0;
};
// Nobody has come in, but some may have gone: without all but `ranks`.
HostNumbers keep_hosts_of(const std::vector<Rank>& ranks, const std::vector<int>& hosts);

}  // namespace holdfast::group
