// Gate: what an op waits for besides its turn: its input is still on the way into the memory that
// its request names, or its request depends on how an earlier op ends. The code that completes
// either opens the gate, and wakes the communicator.
// Why: docs/decisions/0078-staged-ops-have-a-gate.md
#pragma once

#include <optional>

#include "base/result.h"

namespace holdfast::comm {

struct OpRequest;

class Gate {
 public:
  virtual ~Gate() = default;
  // Nothing: the input is not there yet. ok: the op may begin. Else: the input will never come, and
  // the op fails with this status on all ranks. Holder of the runtime only; never blocks; not asked
  // again after an answer.
  virtual std::optional<Status> look() = 0;
  // Called once, when look() has returned ok: an op that took its number before its request was
  // known fills it in now, the same on all ranks. Until then the op counts as not called. `called`
  // and `gate` stay. Holder of the runtime only.
  virtual void fill([[maybe_unused]] OpRequest& request) {}
};

}  // namespace holdfast::comm
