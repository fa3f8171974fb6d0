#include "comm/transport/trunk/control_trial.h"

#include <algorithm>
#include <chrono>

namespace holdfast::comm {
namespace {

// A trial lasts so many round trips: a lane needs some to begin.
constexpr int kTrialRoundTrips = 10;
constexpr Duration kLeastTrial = std::chrono::milliseconds(500);
// How much more the lanes of one have to deliver: chance makes smaller differences.
constexpr double kClearly = 1.25;

}  // namespace

LaneControl ControlTrial::next() {
  if (better_) return *better_;
  last_ = last_ == LaneControl::kBbr ? LaneControl::kSystem : LaneControl::kBbr;
  return last_;
}

void ControlTrial::look(Instant now, bool busy, Duration round_trip,
                        std::span<const LaneDelivery> lanes) {
  if (better_) return;
  if (!busy || !counts_) return begin(now, lanes);
  if (now - since_ < std::max<Duration>(kLeastTrial, kTrialRoundTrips * round_trip)) return;
  std::array<double, kLaneControls> bytes{};
  std::array<double, kLaneControls> count{};
  for (const LaneDelivery& lane : lanes) {
    const auto from = from_.find(lane.lane);
    if (from == from_.end()) continue;  // it came in the middle of the trial
    const auto control = static_cast<std::size_t>(lane.control);
    bytes[control] += static_cast<double>(lane.bytes - from->second);
    ++count[control];
  }
  if (count[0] > 0 && count[1] > 0) {
    const double system = bytes[0] / count[0];
    const double bbr = bytes[1] / count[1];
    if (bbr > kClearly * system) better_ = LaneControl::kBbr;
    if (system > kClearly * bbr) better_ = LaneControl::kSystem;
  }
  begin(now, lanes);
}

void ControlTrial::begin(Instant now, std::span<const LaneDelivery> lanes) {
  counts_ = true;
  since_ = now;
  from_.clear();
  for (const LaneDelivery& lane : lanes) from_[lane.lane] = lane.bytes;
}

}  // namespace holdfast::comm
