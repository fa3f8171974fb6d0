// Fusion: which receives of a schedule become part of the reduction they feed, so that bytes are
// reduced as they arrive. This is decided on the schedule, so that the verifier proves what the
// engine runs: a fused receive is only posted once the reduction's other operand is there and its
// destination is free.
// Why: docs/decisions/0007-fusion-is-proven.md
#pragma once

#include <vector>

#include "comm/schedule/schedule.h"

namespace holdfast::comm {

// How often a scratch chunk is written and read, and which step does so last.
struct ScratchUse {
  int producer = -1;
  int producers = 0;
  int consumer = -1;
  int consumers = 0;
  bool passes_once() const { return producers == 1 && consumers == 1; }
};

std::vector<ScratchUse> scratch_uses(const Schedule& schedule);

// Indexed by step: the reduction that a receive is part of, or -1. A receive is fused when its
// scratch feeds only one reduction, and the reduction waits for no send: a rank that received only
// after its own send could wait for a peer that does the same.
std::vector<int> find_fusions(const Schedule& schedule);

// The other way round: the receive that became part of a reduction, or -1.
void invert(const std::vector<int>& fused, std::vector<int>& fed_by);

}  // namespace holdfast::comm
