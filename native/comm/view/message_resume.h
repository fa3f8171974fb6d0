// What two ranks tell each other about their messages when the connection between them was made
// anew: which ones the sender considers sent. Pure; what comes from the network is bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace holdfast::comm {

// About the messages to a rank with a tag: all below `ordinal` had been begun; or, with `again`,
// the one of that number had not left and is sent again.
struct SentNotice {
  std::uint32_t tag = 0;
  std::uint32_t ordinal = 0;
  bool again = false;
  friend bool operator==(const SentNotice&, const SentNotice&) = default;
};

// Encodes them in parts that fit into frames.
std::vector<std::vector<std::byte>> encode_sent(const std::vector<SentNotice>& notices);
// kProtocolError for anything encode_sent() does not make.
Result<std::vector<SentNotice>> decode_sent(std::span<const std::byte> bytes);
// The status of a receive whose message was lost with a connection.
Status lost_message(Rank from);

}  // namespace holdfast::comm
