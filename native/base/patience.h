// Patience: limits of time that suppose a near network, where a peer is far away. On a near path
// they are what they were; on a far one there is time for a few round trips more, in which the
// kernel asks again, and what was lost is sent again.
// Why: docs/decisions/0170-windows-follow-the-path.md
#pragma once

#include <algorithm>

#include "base/types.h"

namespace holdfast {

// Three for a connection, its seal and its greetings, or for what is sent again twice; one more for
// the answer.
inline constexpr int kPatientTrips = 4;
// Longer round trips are measured behind full queues, or from a peer that answers late on purpose.
inline constexpr Duration kLongestTrip = std::chrono::seconds(2);

constexpr Duration patience(Duration near, Duration round_trip) {
  return near + kPatientTrips * std::clamp(round_trip, Duration::zero(), kLongestTrip);
}

}  // namespace holdfast
