// Gate: what an op waits for besides its turn: its input is still on the way into the memory that
// its request names. Whoever brings it there opens the gate, and wakes the communicator.
#pragma once

#include <optional>

#include "base/result.h"

namespace holdfast::comm {

class Gate {
 public:
  virtual ~Gate() = default;
  // Nothing: the input is not there yet. ok: the op may begin. Else: it never will, and the op
  // fails with this on all ranks. Holder of the runtime only; never blocks; not asked again after
  // an answer.
  virtual std::optional<Status> look() = 0;
};

}  // namespace holdfast::comm
