// Lane growth: how many lanes a trunk's bulk is worth. Lanes are doubled while what is delivered a
// second grows with them. None is given up: the others would take long to find out that they may
// send what it did.
//
// It has no clock and no socket. Thread: only the holder of the runtime.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/types.h"

namespace holdfast::comm {

class LaneGrowth {
 public:
  // Lanes for bulk to begin with: when one is lost, the other one is at full speed.
  static constexpr unsigned kFirstLanes = 2;
  // What a trunk saw when it looked.
  struct LaneLook {
    Instant now;
    std::uint64_t delivered = 0;  // bytes, in all
    bool busy = false;            // whether bulk has waited for the lanes since the last look
    Duration round_trip{};
    unsigned lanes = 0;  // that carry bulk now
  };

  explicit LaneGrowth(unsigned most) : most_(most), wanted_(std::min(most, kFirstLanes)) {}

  void look(const LaneLook& look);
  // Lanes for bulk.
  unsigned wanted() const { return wanted_; }
  // Bytes a second, the best of the last looks; 0: nothing was measured.
  std::uint64_t rate() const { return rate_; }

 private:
  void measure(const LaneLook& look);
  void judge(std::uint64_t rate, Instant now);
  void begin(const LaneLook& look);

  unsigned most_;
  unsigned wanted_;
  std::uint64_t rate_ = 0;
  // Of rate_: a measurement of about a round trip.
  Instant measured_since_{};
  std::uint64_t measured_from_ = 0;
  // Of the number of lanes: a longer one, after they have had time to fill the path.
  bool trying_ = false;
  Instant settles_{};
  Instant ends_{};
  Instant counted_since_{};
  std::uint64_t counted_from_ = 0;
  std::uint64_t best_rate_ = 0;
  bool settled_ = false;
  Instant tries_again_{};
};

}  // namespace holdfast::comm
