// Whether a rank is in a list of ranks, as outcomes name them.
#pragma once

#include <algorithm>
#include <vector>

#include "base/types.h"

namespace holdfast::sim {

inline bool has(const std::vector<Rank>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), Rank{rank}) != ranks.end();
}

}  // namespace holdfast::sim
