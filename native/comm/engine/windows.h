// Windows: which scratch chunks only pass through this rank, and how much memory each of them
// streams through instead of a buffer of its full size.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/schedule/fusion.h"
#include "comm/schedule/schedule.h"
#include "comm/transport/link.h"

namespace holdfast::comm {

// A window has room for what the path to its sender holds (comm/engine/path_room.h), and the
// windows of an op together have kNearRoom each and this much more.
inline constexpr std::uint64_t kMostWidening = 128ULL << 20;

struct Streams {
  const Schedule& schedule;
  const std::vector<ScratchUse>& uses;
  const std::vector<int>& fed_by;             // by step: the receive that became part of it, or -1
  const std::vector<std::uint64_t>& scratch;  // elements, by chunk
  std::uint64_t element_bytes = 1;
  const std::vector<Link*>* links = nullptr;  // by rank; null: no path is long
};

// Room for one of `streams` streams of an op to a rank, by what is known of the path there.
std::uint64_t room_towards(Rank peer, const std::vector<Link*>* links, std::uint64_t streams);

// Sets the windows, by scratch chunk, of those that have one; the others are 0 already.
void find_windows(const Streams& streams, std::vector<std::uint64_t>& window);

}  // namespace holdfast::comm
