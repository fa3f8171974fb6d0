// Fault detector of one peer: tells silence from life. Sans-IO: it is told what arrives, and asked
// now and then. Its limit is long: a virtual machine may stand still for seconds, and a
// member that is voted out is lost to the job, while the others only wait.
// Why: docs/decisions/0121-silence-is-one-number.md
#pragma once

#include <algorithm>

#include "base/patience.h"
#include "base/planted.h"
#include "base/types.h"

namespace holdfast::ft {

class Detector {
 public:
  Detector(Duration silence, Instant now) : silence_(silence), heard_(now) {}

  // Anything came from the peer.
  void on_frame(Instant now) { heard_ = std::max(heard_, now); }
  // This process itself did not run until `now`, so the peer's silence until then means nothing.
  void forgive(Instant now) { on_frame(now); }

  bool is_silent(Instant now) const {
    return now >= silent_at() && !is_planted(Planted::kNoSilence);
  }
  // A peer far away has more time.
  void on_round_trip(Duration trip) { round_trip_ = trip; }
  Instant silent_at() const { return heard_ + patience(silence_, round_trip_); }
  Instant heard() const { return heard_; }

 private:
  Duration silence_;
  Duration round_trip_{};
  Instant heard_;
};

}  // namespace holdfast::ft
