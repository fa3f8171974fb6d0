#include "comm/transport/trunk/lane_calls.h"

#include <algorithm>

#include "comm/transport/trunk/trunk_link.h"

namespace holdfast::comm {
namespace {

// Calls at once in place of lanes that are lost.
constexpr std::size_t kAtOnce = 4;

}  // namespace

std::size_t lanes_to_call(const TrunkLink& trunk, const LaneCaller& caller) {
  const bool all = trunk.is_down() || trunk.is_stalled();
  // Whichever of the two is let through. What is left of the path is the caller's to add to.
  if (all || (caller.is_caller && trunk.has_stalled())) {
    // Connections begin slowly: several are as fast as the lost ones sooner.
    const std::size_t lanes = all && caller.is_caller ? std::min(trunk.wanted_lanes(), kAtOnce) : 1;
    return std::min(lanes, kMostLaneCalls - std::min<std::size_t>(kMostLaneCalls, caller.called));
  }
  // A relay is asked for no more than one.
  if (!caller.is_caller || caller.relayed) return 0;
  const std::size_t coming = trunk.lanes() + caller.called;
  return trunk.wanted_lanes() - std::min(trunk.wanted_lanes(), coming);
}

}  // namespace holdfast::comm
