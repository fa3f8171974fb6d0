#include "comm/transport/trunk/lane_header.h"

#include <cstring>

#include "comm/transport/trunk/trunk_terms.h"

namespace holdfast::comm {

// The first byte is 0 without a frame, else the stream's place and one; six bytes are zero.
void encode_lane_header(const LaneHeader& header, std::span<std::byte, kLaneHeaderBytes> out) {
  std::memset(out.data(), 0, out.size());
  if (header.stream) out[0] = static_cast<std::byte>(static_cast<int>(*header.stream) + 1);
  out[1] = static_cast<std::byte>(header.wanted);
  std::memcpy(out.data() + 8, &header.number, sizeof header.number);
  std::memcpy(out.data() + 16, header.seen.data(), sizeof header.seen);
}

Result<LaneHeader> parse_lane_header(std::span<const std::byte, kLaneHeaderBytes> bytes) {
  LaneHeader header;
  const auto kind = std::to_integer<std::uint8_t>(bytes[0]);
  if (kind > 0 && kind <= kTrunkStreams) header.stream = static_cast<TrunkStream>(kind - 1);
  header.wanted = std::to_integer<std::uint8_t>(bytes[1]);
  bool sound = kind <= kTrunkStreams && header.wanted <= kMostTrunkLanes;
  for (std::size_t i = 2; i < 8; ++i) sound = sound && bytes[i] == std::byte{0};
  std::memcpy(&header.number, bytes.data() + 8, sizeof header.number);
  std::memcpy(header.seen.data(), bytes.data() + 16, sizeof header.seen);
  sound = sound && (header.stream || header.number == 0);
  if (!sound) return Status{Code::kProtocolError, "malformed lane header"};
  return header;
}

}  // namespace holdfast::comm
