// Control trial: which congestion control suits a path, by what lanes with one and lanes with the
// other delivered side by side while both had enough to send.
//
// It has no clock and no socket. Thread: only the holder of the runtime.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "base/types.h"
#include "comm/transport/trunk/lane_stream.h"

namespace holdfast::comm {

class ControlTrial {
 public:
  // What one lane of bulk has delivered since it began.
  struct LaneDelivery {
    LaneId lane = kNoLane;
    LaneControl control = LaneControl::kSystem;
    std::uint64_t bytes = 0;
  };

  // For the next lane: the better one, and before that is known each in turn.
  LaneControl next();
  // What is known to be better here; nothing: not enough was delivered by both.
  std::optional<LaneControl> better() const { return better_; }
  // `busy`: whether bulk has waited for the lanes since the last look.
  void look(Instant now, bool busy, Duration round_trip, std::span<const LaneDelivery> lanes);

 private:
  void begin(Instant now, std::span<const LaneDelivery> lanes);

  std::optional<LaneControl> better_;
  LaneControl last_ = LaneControl::kSystem;
  bool counts_ = false;
  Instant since_{};
  std::map<LaneId, std::uint64_t> from_;
};

}  // namespace holdfast::comm
