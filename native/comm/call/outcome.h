// Outcome: which ranks' data a collective's result has, the same on every member that survives it.
#pragma once

#include <vector>

#include "base/types.h"

namespace holdfast::comm {

struct Outcome {
  Epoch epoch;                     // of the view in which the op ended
  std::vector<Rank> contributors;  // ranks whose data is in every part of the result; rising
  std::vector<Rank> missing;       // ranks of the group whose data is not in all of the result
  bool retried = false;            // the op was repaired after a loss
  std::vector<Rank> joined;        // a step boundary: ranks that came in at it
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

}  // namespace holdfast::comm
