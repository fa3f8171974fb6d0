// Far link: what a rank's heartbeat tells of a link that is a trunk, or goes through a relay.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "comm/transport/trunk/cut_log.h"
#include "health/metrics.h"

namespace holdfast::health {

// Of more than these a rank tells of those that are cut, then of those that were cut last, then of
// those that carry most.
inline constexpr std::size_t kMostFarLinks = 16;
// The peer of what stands for all peers that Metrics does not tell apart.
inline constexpr Rank kOtherPeers{-1};
inline constexpr std::int32_t kHighestPeer = static_cast<std::int32_t>(Metrics::kPeers) - 1;

struct FarLink {
  Rank peer;  // its rank in the world
  bool relayed = false;
  bool down = false;           // no connection is left
  std::uint8_t lanes = 0;      // connections
  std::uint32_t controls = 0;  // bits, by comm::kTcpControls
  std::uint64_t bytes_per_s = 0;
  std::int64_t round_trip_ns = 0;
  std::uint64_t sent_again = 0;  // bytes
  std::uint64_t cuts = 0;
  std::uint64_t resumed = 0;
  // Of the last minute, and the last one, if there was any.
  std::uint8_t recent_cuts = 0;
  comm::LaneCut last_cut = comm::LaneCut::kReset;
  std::int64_t cut_ns = -1;   // age of the last; -1: there was none
  std::int64_t down_ns = -1;  // for how long it has been down; -1: it is not
  friend bool operator==(const FarLink&, const FarLink&) = default;
};

// Any thread. By peer, at most kMostFarLinks.
std::vector<FarLink> far_links_of(const Metrics& metrics, Instant now);

// Within a rank's summary.
inline constexpr std::size_t kFarLinkBytes = 4 + 4 + 4 + 7 * 8;
void encode_far_link(Writer& w, const FarLink& link);
// Whether what is there is what encode_far_link() writes.
bool parse_far_link(Reader& r, FarLink& link);

}  // namespace holdfast::health
