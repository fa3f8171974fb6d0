// Repair schedule: an op's fate as steps of the engine, for one rank. What has to be reduced again
// is cut among the survivors; each folds its piece in rank order as the others' inputs come in, and
// sends it to the others. Per rank, n survivors, S bytes: n-1 messages in and n-1 out per phase, 2
// (n-1)/n S sent, as a ring, in two hops (direct reduce-scatter and all-gather; Chan et al. 2007,
// section 4).
#pragma once

#include "comm/view/view_communicator.h"
#include "group/repair.h"

namespace holdfast::group {

// `request`: blocks indexed by rank of the group. `ranks`: members of the view, as ranks of the
// group, rising; `self`: this one of them.
comm::RepairRun make_repair(const OpFate& fate, const comm::OpRequest& request,
                            const std::vector<Rank>& ranks, Rank self);

// The request with the ranks of a view: blocks of ranks outside the view are left out.
comm::OpRequest request_in_view(const comm::OpRequest& request, const std::vector<Rank>& ranks);

// The elements of the op's output blocks that lie in `held`.
std::vector<HeldBlock> held_blocks(const comm::OpRequest& request, Rank self,
                                   const std::vector<comm::Execution::HeldPiece>& held);

}  // namespace holdfast::group
