#include "comm/transport/trunk/lane_growth.h"

#include <algorithm>
#include <chrono>

namespace holdfast::comm {
namespace {

// Round trips until new lanes have filled the path as far as they do, and that are then counted.
constexpr int kSettleRoundTrips = 3;
constexpr int kCountRoundTrips = 3;
constexpr Duration kLeastTime = std::chrono::milliseconds(50);
// A path changes: more lanes are tried again after this time.
constexpr Duration kTryAgain = std::chrono::seconds(30);

std::uint64_t per_second(std::uint64_t bytes, Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds > 0 ? static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds) : 0;
}

}  // namespace

void LaneGrowth::look(const LaneLook& look) {
  measure(look);
  if (!look.busy || look.lanes == 0) {
    trying_ = false;
    return;
  }
  if (settled_) {
    if (look.now < tries_again_) return;
    settled_ = false;
    best_rate_ = 0;
  }
  if (!trying_) return begin(look);
  // A lane that is lost, or comes later than the others, begins the count anew.
  if (look.lanes < wanted_) return begin(look);
  if (counted_since_ == Instant{}) {
    if (look.now < settles_) return;
    counted_since_ = look.now;
    counted_from_ = look.delivered;
    ends_ = look.now + kCountRoundTrips * look.round_trip + kLeastTime;
    return;
  }
  if (look.now < ends_) return;
  judge(per_second(look.delivered - counted_from_, look.now - counted_since_), look.now);
  trying_ = false;
}

void LaneGrowth::begin(const LaneLook& look) {
  trying_ = true;
  settles_ = look.now + kSettleRoundTrips * look.round_trip;
  counted_since_ = {};
}

void LaneGrowth::judge(std::uint64_t rate, Instant now) {
  // A tenth more is worth twice the lanes.
  const bool grew = rate > best_rate_ + best_rate_ / 10;
  if (grew) best_rate_ = rate;
  settled_ = !grew || wanted_ >= most_;
  if (settled_) {
    tries_again_ = now + kTryAgain;
  } else {
    wanted_ = std::min(most_, 2 * wanted_);
  }
}

// The rate follows what is delivered up at once, and down slowly: a pause says nothing of the path.
void LaneGrowth::measure(const LaneLook& look) {
  if (measured_since_ == Instant{}) {
    measured_since_ = look.now;
    measured_from_ = look.delivered;
    return;
  }
  const Duration passed = look.now - measured_since_;
  if (passed < std::max(look.round_trip, kLeastTime)) return;
  const std::uint64_t rate = per_second(look.delivered - measured_from_, passed);
  const std::uint64_t kept = look.busy ? rate_ - rate_ / 8 : rate_;
  rate_ = std::max(rate, kept);
  measured_since_ = look.now;
  measured_from_ = look.delivered;
}

}  // namespace holdfast::comm
