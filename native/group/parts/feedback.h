// Feedback: what becomes of the residual of an op with error feedback. The rule: a residual is
// committed with its op, once, and only where what it says was left out has been left out. Three
// cases leave the caller's residual as it was: an op that fails; every part that the survivors of a
// loss exchanged without encoding, for there the input counted as it is, and the old residual is
// still to be added; and what was sent to a rank that has gone, whose part of the result no rank
// has. It encodes nothing itself: the op's run writes where begin() says.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0053-a-repair-is-not-encoded.md
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "comm/call/op_work.h"
#include "comm/engine/buffer_pool.h"
#include "comm/observer.h"
#include "group/repair.h"

namespace holdfast::group {

class Feedback {
 public:
  // The residual that an encoded op leaves: it becomes the caller's when the op has ended well.
  struct Residual {
    comm::BufferPool::Buffer memory;  // one f32 per element of the input
    std::map<std::uint32_t, ft::Ranges>
        uncoded;  // by input block: what was exchanged without encoding
  };

  // `observer`, which may be nothing, outlives it.
  Feedback(Rank self, comm::Observer* observer, std::shared_ptr<const Clock> clock)
      : self_(self), observer_(observer), clock_(std::move(clock)) {}

  // For a run from the start, in a view of these ranks: where to write the residual, by the input
  // blocks that the view has.
  std::vector<float*> begin(Residual& residual, const comm::OpRequest& request,
                            const std::vector<Rank>& present);
  // Notes what the repair that is about to begin takes from the inputs without encoding.
  void note_uncoded(Residual& residual, const comm::OpRequest& request, const OpFate& fate) const;
  // The op has ended, `well` or not.
  void end(Residual& residual, const comm::OpRequest& request, const std::vector<Rank>& present,
           bool well);

 private:
  void observe(const comm::OpRequest& request);

  const Rank self_;
  comm::Observer* const observer_;
  // Owners: every group of the node and the works they handed out.
  const std::shared_ptr<const Clock> clock_;
  comm::BufferPool pool_;
  Instant next_look_{};
};

}  // namespace holdfast::group
