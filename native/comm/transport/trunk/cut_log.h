// Cut log: which connections a trunk has lost of late, and why.
//
// It has no clock: what was lost since the last look was lost then, and is one cut: an outage ends
// many connections. Thread: only the holder of the runtime. Why:
// docs/decisions/0173-each-end-tells-its-cuts.md
#pragma once

#include <array>
#include <cstddef>

#include "base/types.h"
#include "comm/transport/trunk/trunk_meter.h"

namespace holdfast::comm {

// A cut that is older is history.
inline constexpr Duration kRecentCut = std::chrono::minutes(1);

class CutLog {
 public:
  // More within a minute are not told apart.
  static constexpr std::size_t kMostRecent = 32;

  void add(LaneCut why, TrunkMeter& meter);
  // `down`: whether no lane is left.
  void look(Instant now, bool down);
  void show(TrunkMeter& meter) const;

 private:
  std::array<Instant, kMostRecent> at_{};  // the latest, in a ring
  std::size_t next_ = 0;
  bool unseen_ = false;
  std::size_t recent_ = 0;
  LaneCut last_ = LaneCut::kReset;
  Instant last_at_{};
  Instant down_since_{};
};

}  // namespace holdfast::comm
