// View notice: the payload of a revoke frame: why a view has ended. Comes from the network, so
// decoding is total.
// Why: docs/decisions/0011-a-notice-is-passed-on-by-all.md
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/call/call.h"

namespace holdfast::comm {

struct ViewNotice {
  Code code = Code::kPeerLost;
  std::vector<Rank> ranks;  // ranks lost, or the rank that gave up
  std::string text;
  // Set if the members are to tell each other what they had called: then the view ends when all
  // have answered, or soon after without an answer.
  std::optional<CallReport> report = {};
};

inline constexpr std::size_t kMaxNoticeRanks = 4096;
inline constexpr std::size_t kMaxNoticeText = 4096;

std::vector<std::byte> encode_notice(const ViewNotice& notice);
// kProtocolError for anything encode_notice() does not make, or a rank outside 0 .. size-1.
Result<ViewNotice> decode_notice(std::span<const std::byte> bytes, int size);

}  // namespace holdfast::comm
