// Splice: a forest for those who are left, made of the one that they had: at once, where a plan
// from nothing takes as long as the search does. What hung on a dead rank goes to whom the dead one
// hung on, if the links there have room, and else where the capacities are used least.
// Why: docs/decisions/0144-a-forest-is-spliced-before-it-is-planned-anew.md
#pragma once

#include <optional>
#include <span>

#include "topology/forest/forest.h"

namespace holdfast::topology {

// `forest` is of ranks as they were; `capacities` and `task` are of those who are left, numbered
// anew. `place`: by old rank its new number, or -1: it is gone. Nothing where a rank that is left
// cannot be reached, or fewer than two are left. The same input gives the same forest on every
// machine. Its bound is most_payload()'s, which is rougher than a search's.
std::optional<Forest> splice_forest(const Forest& forest, const Capacities& capacities,
                                    const ForestTask& task, std::span<const int> place);

}  // namespace holdfast::topology
