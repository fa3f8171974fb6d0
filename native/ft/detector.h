// Fault detector of one peer: tells silence from life. Sans-IO: told what arrives, asked now and
// then. A peer is silent when nothing came for three heartbeats, or longer where its heartbeats
// have been seen to come unevenly (Bertier, Marin, Sens 2002: the margin follows the deviation).
#pragma once

#include <algorithm>

#include "base/planted.h"
#include "base/types.h"

namespace holdfast::ft {

// Heartbeats that may be missed before a peer counts as silent.
inline constexpr int kMissedHeartbeats = 3;
// However unevenly a peer's heartbeats come, it gets no more time than this many.
inline constexpr int kMostHeartbeats = 10;

class Detector {
 public:
  Detector(Duration heartbeat, Instant now) : heartbeat_(heartbeat), heard_(now), beat_(now) {}

  // Anything came from the peer.
  void on_frame(Instant now) { heard_ = std::max(heard_, now); }

  void on_heartbeat(Instant now) {
    const Duration gap = now - beat_;
    // Jacobson's estimator, as TCP's retransmission timer has it.
    const Duration error = gap - heartbeat_;
    deviation_ += ((error < Duration::zero() ? -error : error) - deviation_) / 8;
    beat_ = now;
    on_frame(now);
  }

  // This process itself did not run until `now`: what did not arrive says nothing.
  void forgive(Instant now) { heard_ = beat_ = std::max(heard_, now); }

  bool is_silent(Instant now) const { return now - heard_ >= limit(); }
  Instant silent_at() const { return heard_ + limit(); }
  Instant heard() const { return heard_; }
  Duration limit() const {
    if (is_planted(Planted::kNoSilence)) return std::chrono::hours(1);
    return std::min(heartbeat_ * kMissedHeartbeats + deviation_ * 4, heartbeat_ * kMostHeartbeats);
  }

 private:
  Duration heartbeat_;
  Duration deviation_{};
  Instant heard_;
  Instant beat_;  // last heartbeat
};

}  // namespace holdfast::ft
