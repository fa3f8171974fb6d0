// The schedule of a forest: weighted trees that a planner found.
#pragma once

#include <span>

#include "comm/schedule/builder.h"
#include "topology/forest/forest.h"

namespace holdfast::comm {

// For all_reduce, broadcast and reduce, whose trees have the ways that the collective needs; those
// of the latter two have the call's root. Chunk i is that of trees[i].
Schedule build_forest(const BuildSpec& spec, std::span<const topology::PlannedTree> trees);

}  // namespace holdfast::comm
