// Clock port. Production reads the monotonic clock; tests and the simulator advance time by hand.
#pragma once

#include "base/types.h"

namespace holdfast {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;  // any thread
};

// The operating system's monotonic clock.
class MonotonicClock final : public Clock {
 public:
  Instant now() const override { return {std::chrono::steady_clock::now().time_since_epoch()}; }
};

}  // namespace holdfast
