// Coverage: the time that is covered by at least one of many overlapping spans, which are added as
// they end. It is exact where spans begin and end in the same order or lie within each other; where
// they do both at once it may miss a part, and is never too large.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/metrics/instruments.h"
#include "base/types.h"

namespace holdfast::metrics {

// Writer: one at a time; readers: any thread.
class Coverage {
 public:
  std::uint64_t total_ns() const { return total_.value(); }

  // `before`: total_ns() when the span began, or earlier. `end` rises from call to call.
  void add(Instant begin, Instant end, std::uint64_t before) {
    const std::uint64_t total = total_.value();
    // Two lower bounds of the new total: with the part that no earlier span can have covered, and
    // with the part that this span covers by itself.
    const std::uint64_t beyond = total + between(std::max(begin, until_), end);
    const std::uint64_t alone = before + between(begin, end);
    total_.add(std::max(beyond, alone) - total);
    until_ = std::max(until_, end);
  }

 private:
  static std::uint64_t between(Instant begin, Instant end) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, (end - begin).count()));
  }

  Counter total_;
  Instant until_{};
};

}  // namespace holdfast::metrics
