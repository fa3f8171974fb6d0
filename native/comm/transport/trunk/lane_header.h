// Lane header: what stands before each frame on a lane of a trunk, or alone: it numbers the frame
// and tells how far the frames of the other direction have come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace holdfast::comm {

inline constexpr std::size_t kLaneHeaderBytes = 32;

// The two streams of a trunk, each with numbers of its own: bulk never holds up a heartbeat or a
// membership message, not even where a frame of bulk is missing.
enum class TrunkStream : std::uint8_t { kControl, kBulk };
inline constexpr std::size_t kTrunkStreams = 2;

struct LaneHeader {
  std::optional<TrunkStream> stream;  // of the frame that follows; nothing: none does
  std::uint8_t wanted = 0;            // lanes that the sender would like the trunk to have
  std::uint64_t number = 0;           // of the frame in its stream, from 0
  // Of each stream of the other direction: all frames below this number have come.
  std::array<std::uint64_t, kTrunkStreams> seen{};
  friend bool operator==(const LaneHeader&, const LaneHeader&) = default;
};

void encode_lane_header(const LaneHeader& header, std::span<std::byte, kLaneHeaderBytes> out);
// kProtocolError for anything no peer of this version sends.
Result<LaneHeader> parse_lane_header(std::span<const std::byte, kLaneHeaderBytes> bytes);

}  // namespace holdfast::comm
