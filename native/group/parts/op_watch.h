// Op watch: what a group tells the observer (comm/observer.h) of its ops and its views. Without an
// observer it does nothing; it never changes what it is told of.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0049-health-is-one-observer.md
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/call/op_work.h"
#include "comm/observer.h"
#include "comm/view/communicator_config.h"
#include "group/parts/roster.h"

namespace holdfast::group {

class OpWatch {
 public:
  // `observer`: nothing where there is none; outlives the watch.
  OpWatch(CommId group, Rank self, comm::Observer* observer, std::shared_ptr<const Clock> clock)
      : group_(group), self_(self), observer_(observer), clock_(std::move(clock)) {}

  bool is_observed() const { return observer_ != nullptr; }
  // An op begins in that epoch, has chosen its path, has ended.
  void began(comm::OpWork& work, Epoch epoch, Instant now);
  void took_path(const comm::OpWork& work, Epoch epoch);
  void ended(comm::OpWork& work, Code code, bool repaired);
  // The same for an op that has no work of its own.
  void began_inline(comm::OpTicket& ticket, const comm::OpRequest& request, OpSeq sequence,
                    Epoch epoch);
  void ended_inline(comm::OpTicket& ticket);

  // A caller waits for messages, which are no ops.
  void told_of_wait(comm::LongWait& wait, comm::WaitPhase phase, Epoch epoch);

  // Whether it is time to ask which ranks an op waits for.
  bool is_due(Instant now) const { return observer_ != nullptr && now >= next_look_; }
  // Chooses the op to ask about, of the collective and the message that began first; either may be
  // nothing. Nothing: neither has waited for long.
  const comm::OpWork* choose(const comm::OpWork* collective, const comm::OpWork* message,
                             Instant now);
  // The op that was chosen waits for these ranks of the world.
  void waits(const comm::OpWork& work, std::vector<Rank> world_ranks, Instant now);

  // A view begins; `links` are those of the ranks that are present.
  void began_view(const Roster& roster, const std::vector<comm::MemberLinks>& links);
  // A link that the view had not when it began.
  void linked(Rank world_rank, const comm::MemberLinks& links);
  void named(const std::string& name);
  // The group, which has all ranks of its world, plans by the map.
  void took_map(const std::string& name, const comm::TakenMap& taken);
  // The group of all ranks of its world has ended.
  void failed(const Status& status);

 private:
  const CommId group_;
  const Rank self_;
  comm::Observer* const observer_;
  // Owners: every group of the node and the works they handed out.
  const std::shared_ptr<const Clock> clock_;
  // An op that has waited for some time, as it was when last polled.
  std::uint64_t number_ = 0;  // the observer's number; 0: none
  Instant seen_{};
  std::vector<Rank> ranks_;  // of the world
  Instant next_look_{};
  std::uint64_t long_waits_ = 0;
};

}  // namespace holdfast::group
