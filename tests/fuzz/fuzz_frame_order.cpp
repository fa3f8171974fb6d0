// Frames of any numbers, that are here or have to be fetched: what is kept ahead stays within its
// limits, and the session gets what it can check. Input: steps of a distance to the awaited number,
// what to do, a frame's header and its payload.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "comm/transport/frame_order.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace holdfast::comm;
  constexpr std::uint8_t kFetch = 1;
  constexpr std::uint8_t kFetched = 2;
  FrameOrder order;
  Session session;
  std::vector<std::uint64_t> under_way;
  auto bytes = std::as_bytes(std::span(data, size));
  while (bytes.size() >= 2 + kFrameHeaderBytes) {
    const auto distance = static_cast<std::int8_t>(bytes[0]);
    const auto what = static_cast<std::uint8_t>(bytes[1]);
    const auto header = parse_header(bytes.subspan(2).first<kFrameHeaderBytes>());
    if (!header.is_ok()) return 0;
    bytes = bytes.subspan(2 + kFrameHeaderBytes);
    const std::uint64_t number = order.next() + static_cast<std::uint64_t>(std::int64_t{distance});
    const std::size_t length = header.value().payload_bytes;
    const std::uint64_t before = order.next();
    if ((what & kFetch) != 0) {
      auto place = order.expect(number, header.value());
      if (!place.is_ok()) return 0;
      if (length > 0) std::memset(place.value(), 1, length);
      under_way.push_back(number);
    } else {
      const auto payload = bytes.first(std::min(length, bytes.size()));
      bytes = bytes.subspan(payload.size());
      if (!order.take(number, header.value(), payload, session).is_ok()) return 0;
    }
    if ((what & kFetched) != 0 && !under_way.empty()) {
      if (!order.filled(under_way.back(), session).is_ok()) return 0;
      under_way.pop_back();
    }
    if (order.next() < before) __builtin_trap();
    for (const std::uint64_t waits : under_way) {
      if (waits < order.next()) __builtin_trap();  // what is under way has not been delivered
    }
  }
  return 0;
}
