#include "comm/engine/path_room.h"

#include <algorithm>
#include <bit>

namespace holdfast::comm {
namespace {

// Shorter round trips are those of a network inside a building: kNearRoom each is 8 Gbit/s then.
constexpr std::int64_t kNearestFarNs = 2'000'000;
// What a far path has at least, in bytes a second, until more is measured. What is measured is what
// this process sends, and over a link that brings a stream it may send next to nothing.
constexpr std::int64_t kLeastRate = 125'000'000;
// A window is granted anew when half of it is free, and a rate is measured while the window may
// still be what limits it: with twice what the path holds neither is in the way.
constexpr double kTimes = 2;
constexpr double kNsPerSecond = 1e9;

}  // namespace

std::uint64_t path_room(const LinkMeter& measured) {
  // The smoothed round trip has the queues in it that this process fills.
  const std::int64_t least = measured.least_round_trip_ns.value();
  const std::int64_t trip = least > 0 ? least : measured.round_trip_ns.value();
  if (trip < kNearestFarNs) return kNearRoom;
  const std::int64_t rate = std::max(kLeastRate, measured.bytes_per_s.value());
  const double holds = static_cast<double>(rate) * static_cast<double>(trip) / kNsPerSecond;
  const double wanted = std::min(kTimes * holds, static_cast<double>(kMostRoom));
  return std::max(kNearRoom, std::bit_ceil(static_cast<std::uint64_t>(wanted)));
}

}  // namespace holdfast::comm
