// Frame: the unit on every link, a fixed header and a bounded payload. A frame is not a message; a
// message is one or more data frames with consecutive offsets. Both ends compute how many bytes a
// message has, or the receiver has room for the most that it may have and the last frame says that
// it ends. All fields little endian, 48 bytes, no padding.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/types.h"

namespace holdfast::comm {

inline constexpr std::uint16_t kFrameMagic = 0x4648;  // "HF"
inline constexpr std::uint8_t kProtocolVersion = 19;
inline constexpr std::size_t kFrameHeaderBytes = 48;
// Bounds what one frame may make a receiver buffer or a small op wait for.
inline constexpr std::uint32_t kMaxFramePayload = 512 * 1024;
// No message is larger than a 48-bit address space.
inline constexpr std::uint64_t kMaxMessageBytes = 1ULL << 48;

enum class FrameKind : std::uint8_t {
  kData = 1,    // granted payload at `offset` of a message of `total_bytes`
  kGrant,       // receiver -> sender, unasked: bytes below `offset` may be sent
  kAnnounce,    // sender -> receiver: a message that waits for a grant
  kRevoke,      // the communicator's view has ended; payload: encoded reason
  kGoodbye,     // the sender closes its side on purpose
  kWake,        // the receiver must look at shared memory
  kHello,       // first frame of a connection; payload: identity of the caller
  kWelcome,     // the answer to kHello
  kPad,         // shared memory only: skip to the start of the ring
  kCall,        // the sender has waited long in this call; payload: encoded call
  kMembership,  // part of a membership message: at `offset` of `total_bytes`
  kHeartbeat,   // the sender is alive
  kDataEnd,     // last data frame of a message that ends before `total_bytes`
  kClosing,     // the sender wants to leave the group: `key.op`: low bits of the next collective
  kSettled,     // the answer to kClosing: its sender has ended the ops before that, or never will.
                // The ordinal of both is an Ask (group/parts/departure.h)
  kArea,        // memory that the sender shares in the view; payload: encoded notice
  kSent,        // on a new connection: messages that had been sent over the last one
  kEager,       // a whole message of at most `total_bytes`, unasked
  kAsk,         // as kAnnounce, where the grant does not come unasked or was forgotten
  kAnswer,      // as kGrant, of use only if its message waits for it
  kCredit,      // receiver -> sender: `total_bytes` of eager messages are kept no more
  kLook,        // receiver -> sender: announce this message again if it waits
  kMail,        // of a mailbox (comm/message/mail_trunk.h)
};

// Names a message. Both ends compute the key, so no match depends on arrival order.
struct MessageKey {
  CommId comm;
  Epoch epoch;
  std::uint32_t op = 0;       // collective: number_in_key(); point to point: kPointToPoint | tag
  std::uint32_t ordinal = 0;  // number of the message on this directed link within op
  friend bool operator==(const MessageKey&, const MessageKey&) = default;
};
// Top bit of MessageKey::op; collectives count below it.
inline constexpr std::uint32_t kPointToPoint = 0x8000'0000;
// Set in MessageKey::op beside a collective's number: the round in which its members tell each
// other that they hold its result.
inline constexpr std::uint32_t kRoundBit = 0x4000'0000;

// The number of a collective's round, as an op number.
inline constexpr OpSeq round_of(OpSeq collective) { return {collective.value | 1ULL << 63}; }
// Keys have the lowest bits of a collective's number: the numbers of collectives that are under way
// at the same time are too close to be confused.
inline constexpr std::uint32_t number_in_key(OpSeq number) {
  const auto low = static_cast<std::uint32_t>(number.value) & (kRoundBit - 1);
  return round_of(number) == number ? low | kRoundBit : low;
}
// The number with the lowest 32 bits `low` that is nearest to `to`.
inline constexpr OpSeq nearest_number(std::uint32_t low, OpSeq to) {
  const auto ahead = static_cast<std::int32_t>(low - static_cast<std::uint32_t>(to.value));
  return {to.value + static_cast<std::uint64_t>(std::int64_t{ahead})};
}

constexpr bool carries_data(FrameKind kind) {
  return kind == FrameKind::kData || kind == FrameKind::kDataEnd || kind == FrameKind::kEager;
}

struct FrameHeader {
  FrameKind kind = FrameKind::kData;
  std::uint32_t payload_bytes = 0;
  MessageKey key;
  std::uint32_t signature =
      0;  // hash of (collective, dtype, op, root): differs when calls do not match
  std::uint64_t offset = 0;
  std::uint64_t total_bytes = 0;
};

void encode_header(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out);

// kProtocolError for anything no peer of this version sends: the caller closes the connection.
Result<FrameHeader> parse_header(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace holdfast::comm
