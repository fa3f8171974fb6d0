#include "comm/message/mail_frame.h"

#include <bit>
#include <string>

namespace holdfast::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little endian");

struct WireMailHeader {
  std::uint8_t kind;
  std::uint8_t zero[3];
  std::uint32_t context;
  std::int32_t tag;
  std::uint32_t payload_bytes;
};
static_assert(sizeof(WireMailHeader) == kMailHeaderBytes);

}  // namespace

void encode_mail_header(const MailHeader& header, std::byte* to) {
  const WireMailHeader wire{static_cast<std::uint8_t>(header.kind),
                            {},
                            header.context.value,
                            header.tag,
                            header.payload_bytes};
  std::memcpy(to, &wire, sizeof wire);
}

Result<MailHeader> parse_mail_header(std::span<const std::byte, kMailHeaderBytes> bytes) {
  WireMailHeader wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.kind < static_cast<std::uint8_t>(MailKind::kHello) ||
      wire.kind > static_cast<std::uint8_t>(MailKind::kCredit) || wire.tag < 0 ||
      wire.payload_bytes > kMaxMailPayload) {
    return Status{Code::kProtocolError, "broken peer: a mail frame of kind " +
                                            std::to_string(wire.kind) + " with tag " +
                                            std::to_string(wire.tag) + " and " +
                                            std::to_string(wire.payload_bytes) + " bytes"};
  }
  return MailHeader{static_cast<MailKind>(wire.kind), {wire.context}, wire.tag, wire.payload_bytes};
}

}  // namespace holdfast::comm
