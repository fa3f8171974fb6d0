// Path pace: how fast the lanes of a trunk may send together. Each lane's congestion control finds
// out for itself what the path carries, and several of them fill a queue until it overflows; then
// much is sent twice, and what is lost beside it waits. When the queue has overflowed, what came
// through is what the path carries: the lanes then stay just below that, and try a little more from
// time to time (as BBR does for one connection; Cardwell et al., ACM Queue 2016, section "Steady
// state").
//
// It has no clock and no socket. Thread: only the holder of the runtime.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace holdfast::comm {

class PathPace {
 public:
  // What a trunk saw when it looked; bytes are of all lanes that it has ever had.
  struct PaceLook {
    Instant now;
    std::uint64_t arrived = 0;
    std::uint64_t sent_again = 0;
    bool busy = false;      // whether bulk has waited for the lanes since the last look
    Duration round_trip{};  // of the lanes that carry bulk, as it is now
    Duration least_round_trip{};
  };

  void look(const PaceLook& look);
  // Bytes a second of all lanes together; 0: no bound.
  std::uint64_t rate() const { return rate_; }

 private:
  void begin(const PaceLook& look);
  void pause(const PaceLook& look);
  void bound(std::uint64_t carried);
  void judge(std::uint64_t rate, bool queued, bool overflows);

  std::uint64_t rate_ = 0;
  std::uint64_t carried_ = 0;  // what the path carried when the bound was found
  std::uint64_t last_ = 0;     // what came through a second in the measurement before
  int calm_ = 0;               // measurements since it was last found
  bool measures_ = false;
  Instant since_{};
  std::uint64_t arrived_from_ = 0;
  std::uint64_t again_from_ = 0;
};

}  // namespace holdfast::comm
