// Mail frames: what two mailboxes say to each other: a header of 16 bytes, and a payload. They go
// over a link (mail_trunk.h) or through memory that two processes of a host share (mail_ring.h).
// All fields are little endian, and without padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "comm/message/mail_request.h"

namespace holdfast::comm {

enum class MailKind : std::uint8_t {
  kHello = 1,  // the first frame; payload: encoded MailHello
  kSwitch,     // the sender's later frames come through shared memory; tag 1: not, it cannot
  kEager,      // a whole message
  kEagerSync,  // a whole message behind a MailId, to be answered with kDone when it is matched
  kAnnounce,   // a message that waits; payload: MailAnnounce
  kTake,       // receiver -> sender: send the payload; payload: MailTake
  kData,       // a part of the payload behind a MailPart
  kDone,       // receiver -> sender: the message needs nothing more; payload: MailId
  kCredit,     // receiver -> sender: these are kept no more; payload: MailAmount
};

struct MailHeader {
  MailKind kind{};
  ContextId context;
  std::int32_t tag = 0;
  std::uint32_t payload_bytes = 0;
};
inline constexpr std::size_t kMailHeaderBytes = 16;
// Bounds what one frame may make a receiver keep.
inline constexpr std::uint32_t kMaxMailPayload = 128 * 1024;

struct MailId {
  std::uint64_t id = 0;  // the sender's
};
struct MailAnnounce {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // of the payload in the sender's memory; 0: it does not lie there
};
struct MailTake {
  std::uint64_t id = 0;
  std::uint64_t receiver_id = 0;
  std::uint64_t from = 0;  // the first byte, and
  std::uint64_t end = 0;   // the one behind the last that the receiver has room for
};
struct MailPart {
  std::uint64_t receiver_id = 0;
  std::uint64_t offset = 0;
};
// Of messages that a sender may be ahead, or of those that are kept no more.
struct MailAmount {
  std::uint64_t bytes = 0;  // with the overhead of each
  std::uint64_t messages = 0;
};

void encode_mail_header(const MailHeader& header, std::byte* to);
// kProtocolError for anything no mailbox of this version sends.
Result<MailHeader> parse_mail_header(std::span<const std::byte, kMailHeaderBytes> bytes);

// Reads one of the structs above from the front of a payload, which then begins behind it; nothing:
// the payload is too short.
template <class Part>
std::optional<Part> take_part(std::span<const std::byte>& payload) {
  if (payload.size() < sizeof(Part)) return std::nullopt;
  Part part;
  std::memcpy(&part, payload.data(), sizeof part);
  payload = payload.subspan(sizeof part);
  return part;
}

}  // namespace holdfast::comm
