// Trunk terms: what the two ends of a link agree on when they greet.
#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::comm {

inline constexpr unsigned kMostTrunkLanes = 16;
// Calls for lanes to one peer at a time, and lanes beyond what was agreed on that a side takes all
// the same: both may have called at once.
inline constexpr unsigned kMostLaneCalls = 16;
inline constexpr unsigned kSurplusLanes = 2 * kMostLaneCalls;
// Bytes of a frame's payload that a trunk sends at most: a frame goes over one lane, and small ones
// share lanes better. An eager message fits.
inline constexpr std::uint32_t kMaxLanePayload = 128 * 1024;

// Of so many lanes the first one carries what is not bulk, the second one the same once more, a
// little later, and the others bulk. Where there are few, bulk is not left without.
constexpr std::size_t first_bulk(std::size_t lanes) { return lanes < 2 ? 0 : lanes < 4 ? 1 : 2; }

struct TrunkTerms {
  std::uint64_t id = 0;  // chosen at random by whoever called first
  unsigned lanes = 0;    // most connections; 0: the link is one connection, without a trunk
};

}  // namespace holdfast::comm
