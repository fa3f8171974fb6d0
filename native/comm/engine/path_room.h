// Path room: how many bytes a stream over a link should be allowed to be ahead of its reader, so
// that the path to the peer stays full. A path holds its rate times its round trip.
//
// On near paths this is a constant. On far ones it follows what the link measures (LinkMeter), up
// to a limit of this process: nothing that a peer says enters, and what it can do to the
// measurements, by answering late, is bounded by that limit.
// Why: docs/decisions/0170-windows-follow-the-path.md
#pragma once

#include <cstdint>

#include "comm/transport/link_meter.h"

namespace holdfast::comm {

// Room on a near path: a few frames, so that both neighbours stay busy while one of them is off its
// core. Rooms are multiples of this.
inline constexpr std::uint64_t kNearRoom = 2048 * 1024;
// The most room of one stream: what a path of 1 Gbit/s and 0.5 s holds, twice.
inline constexpr std::uint64_t kMostRoom = 128ULL << 20;

std::uint64_t path_room(const LinkMeter& measured);

}  // namespace holdfast::comm
