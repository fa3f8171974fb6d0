// Proof of a forest: that its trees are trees. Each way, up and down, joins every rank to the root,
// by hops for which the map has a way; shares are positive and add up to the whole.
//
// What this gives: schedules follow from trees by one small builder (comm/algorithms/forest.cpp),
// which the verifier proves in tests, all ranks' steps together. Trees that are proven here thus
// have sound schedules, and a rank need build none but its own. It takes a step for each rank, tree
// and way. What it does not give: that the builder is right; that is the verifier's part
// (comm/schedule/verifier.h).
// Why: docs/decisions/0143-trees-are-proven-where-they-are-used.md
#pragma once

#include <span>

#include "base/result.h"
#include "topology/forest/forest.h"

namespace holdfast::topology {

// Returns kProtocolError: which tree is wrong, and how.
Status prove_trees(const Capacities& capacities, const ForestTask& task,
                   std::span<const PlannedTree> trees);

}  // namespace holdfast::topology
