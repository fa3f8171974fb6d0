// Lane scenario: one simulated trunk as data: its path, what its two ends send, what becomes of its
// connections. It is made from a seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace holdfast::sim {

// End 0 is the one that called first.
enum class LaneFaultKind : std::uint8_t {
  kCutLane,     // a connection is reset
  kCutAll,      // all are
  kStallLane,   // nothing of one connection arrives, for `lasts`
  kHalfLane,    // likewise, of what `end` sends
  kFlap,        // nothing arrives over any connection, and no call, for `lasts`
  kOneWay,      // likewise, of what `end` sends
  kExpireLane,  // a connection is mute from now on, and nobody is told
  kExpireAll,   // all that there are
  kRefuse,      // calls of `end` are refused for `lasts`
  kRenew,       // `end` gives the trunk up, and has another one with the peer
};
inline constexpr int kLaneFaultKinds = 10;
std::string lane_fault_name(LaneFaultKind kind);

struct LaneFault {
  LaneFaultKind kind{};
  Duration at{};
  int end = 0;
  unsigned lane = 0;  // which of the connections that there are then, counted around
  Duration lasts{};
};

// How the world comes to its end.
enum class LaneEnding : std::uint8_t {
  kDelivered,  // when all has arrived
  kGoodbye,    // end `leaver` says goodbye, and closes
  kDies,       // end `leaver` ends without a word, and the other is told sometime
};

struct LaneScenario {
  std::uint64_t seed = 0;
  unsigned lanes = 2;  // most connections
  Duration latency{};  // one way
  double bytes_per_ns = 1;
  std::size_t room = 0;
  int loss_percent = 0;
  bool one_calls = false;  // end 1 cannot call end 0
  bool relayed = false;    // the first connection goes through a relay
  Duration direct_at{};    // when a direct way opens
  int frames = 0;          // that each end sends, of both streams
  int messages = 0;        // and messages
  bool large = false;      // of megabytes
  Duration sends{};        // within this time
  LaneEnding ending = LaneEnding::kDelivered;
  int leaver = 0;
  Duration ends_at{};
  std::vector<LaneFault> faults;
};

LaneScenario make_lane_scenario(std::uint64_t seed);
std::string to_text(const LaneScenario& scenario);

}  // namespace holdfast::sim
