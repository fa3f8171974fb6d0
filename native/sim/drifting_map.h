// Maps of links that drift: in some steps of the program all ranks take another one, in the middle
// of their calls.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sim/scenario.h"

namespace holdfast::sim {

struct MapOfStep {
  int before_op = 0;  // of the step's ops: earlier ones are under way
  std::shared_ptr<const std::string> text;
};

// The map that ranks of a group of so many take in a step; nullopt: they keep theirs.
std::optional<MapOfStep> map_of_step(const Scenario& scenario, int step, int ranks, int ops);

}  // namespace holdfast::sim
