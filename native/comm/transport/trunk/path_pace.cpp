#include "comm/transport/trunk/path_pace.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace holdfast::comm {
namespace {

// A measurement lasts a round trip, and this at the least.
constexpr Duration kLeastMeasured = std::chrono::milliseconds(50);
// A queue stands where the path is later than its least by so much.
constexpr Duration kQueue = std::chrono::milliseconds(4);
constexpr int kQueueShare = 8;
// It overflows where one byte of so many is sent again. A path that loses packets of its own accord
// has no queue then.
constexpr std::uint64_t kOverflowShare = 256;
// By this part of the rate the lanes stay below what came through.
constexpr std::uint64_t kBelow = 16;
// Measurements after a bound that still show what was sent before it: what was lost is sent again,
// and what waited in the queue comes through as fast as the path carries it.
constexpr int kAftermath = 2;
// More is tried in steps of this part of the rate. They grow once the path has proved to carry more
// than it did. Where a queue stands for so many measurements and does not overflow, it may not be
// this direction's.
constexpr std::uint64_t kStep = 64;
constexpr int kLongestStep = 16;
constexpr int kStepGrowth = 4;
constexpr int kStands = 32;

}  // namespace

void PathPace::look(const PaceLook& look) {
  if (!look.busy) return pause(look);
  if (!measures_) return begin(look);
  const Duration passed = look.now - since_;
  const Duration queue = std::max(kQueue, look.least_round_trip / kQueueShare);
  const bool queued = look.round_trip > look.least_round_trip + queue;
  // The first queue grows fastest, for the lanes double what they send each round trip.
  const Duration whole = std::max(look.round_trip, kLeastMeasured);
  const bool early = queued && rate_ == 0 && passed >= whole / 2;
  if (passed < whole && !early) return;
  const std::uint64_t arrived = look.arrived - arrived_from_;
  if (arrived == 0) return pause(look);
  const std::uint64_t again = look.sent_again - again_from_;
  const double seconds = std::chrono::duration<double>(passed).count();
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(arrived) / seconds);
  const bool overflows = queued && again > (arrived + again) / kOverflowShare;
  if (rate_ == 0) {
    // A path that is late for another reason still lets more through than a moment ago.
    if (overflows || (queued && rate < last_ + last_ / 2)) bound(std::max(rate, last_));
    if (passed < whole && rate_ == 0) return;
    last_ = rate;
  } else {
    judge(rate, queued, overflows);
  }
  begin(look);
}

void PathPace::begin(const PaceLook& look) {
  measures_ = true;
  since_ = look.now;
  arrived_from_ = look.arrived;
  again_from_ = look.sent_again;
}

// What an outage has lost says nothing of a queue.
void PathPace::pause(const PaceLook& look) {
  begin(look);
  measures_ = look.busy;
  last_ = 0;
  calm_ = 0;
}

void PathPace::judge(std::uint64_t rate, bool queued, bool overflows) {
  const std::uint64_t last = std::exchange(last_, rate);
  ++calm_;
  if (calm_ < kAftermath) return;
  if (calm_ == kAftermath) {
    const std::uint64_t carried = (rate + last) / 2;
    if (carried > carried_) {
      carried_ = carried;
      rate_ = std::max(rate_, carried - carried / kBelow);
    }
  } else if (overflows) {
    // An outage may have begun meanwhile.
    bound(std::max({rate, last, rate_ / 2}));
  } else if (rate > rate_ - rate_ / 4 && (!queued || calm_ > kStands)) {
    const bool faster = !queued && rate_ > carried_ + carried_ / kBelow;
    const int steps = faster ? std::min(kLongestStep, 1 + calm_ / kStepGrowth) : 1;
    rate_ += rate_ / kStep * static_cast<std::uint64_t>(steps);
  }
}

void PathPace::bound(std::uint64_t carried) {
  carried_ = carried;
  rate_ = carried - carried / kBelow;
  calm_ = 0;
}

}  // namespace holdfast::comm
