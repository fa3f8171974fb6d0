#include "comm/transport/frame.h"

#include <bit>
#include <cstring>
#include <string>

namespace holdfast::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little endian");

// The header as it lies on the wire.
struct WireHeader {
  std::uint16_t magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::uint32_t payload_bytes;
  std::uint64_t comm;
  std::uint32_t epoch;
  std::uint32_t op;
  std::uint32_t ordinal;
  std::uint32_t signature;
  std::uint64_t offset;
  std::uint64_t total_bytes;
};
static_assert(sizeof(WireHeader) == kFrameHeaderBytes);

Status malformed(const std::string& what) {
  return {Code::kProtocolError, "malformed frame: " + what};
}

bool lengths_fit(const WireHeader& w) {
  if (w.payload_bytes > kMaxFramePayload) return false;
  if (w.total_bytes > kMaxMessageBytes || w.offset > w.total_bytes) return false;
  if (!carries_data(static_cast<FrameKind>(w.kind))) return true;
  return w.payload_bytes <= w.total_bytes - w.offset;
}

}  // namespace

void encode_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out) {
  const WireHeader wire{
      kFrameMagic,          kProtocolVersion,      static_cast<std::uint8_t>(header.kind),
      header.payload_bytes, header.key.comm.value, header.key.epoch.value,
      header.key.op,        header.key.ordinal,    header.signature,
      header.offset,        header.total_bytes};
  std::memcpy(out.data(), &wire, sizeof wire);
}

Result<FrameHeader> parse_header(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  WireHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kFrameMagic) return malformed("not a Holdfast peer");
  if (wire.version != kProtocolVersion) {
    return malformed("protocol version " + std::to_string(wire.version) + ", this side speaks " +
                     std::to_string(kProtocolVersion));
  }
  if (wire.kind < static_cast<std::uint8_t>(FrameKind::kData) ||
      wire.kind > static_cast<std::uint8_t>(FrameKind::kMail)) {
    return malformed("unknown kind " + std::to_string(wire.kind));
  }
  if (!lengths_fit(wire)) return malformed("lengths out of bounds");
  FrameHeader header;
  header.kind = static_cast<FrameKind>(wire.kind);
  header.payload_bytes = wire.payload_bytes;
  header.key = {{wire.comm}, {wire.epoch}, wire.op, wire.ordinal};
  header.signature = wire.signature;
  header.offset = wire.offset;
  header.total_bytes = wire.total_bytes;
  return header;
}

}  // namespace holdfast::comm
