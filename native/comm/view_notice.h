// View notice: the payload of a revoke frame, why a view has ended. Comes from the network, so
// decoding is total.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace holdfast::comm {

struct ViewNotice {
  Code code = Code::kPeerLost;
  std::vector<Rank> ranks;  // lost, or the one that gave up
  std::string text;
};

inline constexpr std::size_t kMaxNoticeRanks = 4096;
inline constexpr std::size_t kMaxNoticeText = 4096;

std::vector<std::byte> encode_notice(const ViewNotice& notice);
// kProtocolError for anything encode_notice() does not make, or a rank outside 0 .. size-1.
Result<ViewNotice> decode_notice(std::span<const std::byte> bytes, int size);

}  // namespace holdfast::comm
