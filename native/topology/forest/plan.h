// What a planner says of a collective on a map: a forest, how long it should take, what the links
// allow at best, and why.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "topology/forest/forest.h"
#include "topology/link_map.h"

namespace holdfast::topology {

struct ForestPlan {
  Forest forest;
  std::uint64_t bytes = 0;
  double predicted_s = 0;
  double bound_s = 0;    // no forest is faster, whatever its latency
  double latency_s = 0;  // of the deepest tree; a part of predicted_s
  std::string decides;   // the capacity that is used most
  std::string why;
  std::uint64_t digest = 0;  // of the trees and the map
};

// Returns kConfigError for a root that the map does not have.
Result<ForestPlan> plan_forest(const LinkMap& map, const ForestTask& task, std::uint64_t bytes);

}  // namespace holdfast::topology
