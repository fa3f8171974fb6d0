// Frames that carry numbers come in any order, and a session gets them in one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "comm/transport/frame_order.h"

namespace holdfast::comm {
namespace {

FrameHeader note(std::size_t bytes) {
  FrameHeader header;
  header.kind = FrameKind::kRevoke;
  header.payload_bytes = static_cast<std::uint32_t>(bytes);
  return header;
}

std::vector<std::byte> bytes_of(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> bytes(size, static_cast<std::byte>(number));
  std::memcpy(bytes.data(), &number, std::min(size, sizeof number));
  return bytes;
}

// As many as there are frames, some of a size that is fetched.
std::size_t size_of(std::uint64_t number) { return number % 5 == 2 ? 300'000 : 8 + number % 90; }

TEST_CASE("whatever order frames come in, the session gets them by their numbers") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 rng(seed);
    FrameOrder order;
    Session session;
    constexpr std::uint64_t kFrames = 60;
    std::vector<std::uint64_t> arrivals(kFrames);
    for (std::uint64_t i = 0; i < kFrames; ++i) arrivals[i] = i;
    for (std::size_t i = kFrames; i-- > 1;) std::swap(arrivals[i], arrivals[rng() % (i + 1)]);
    std::vector<std::uint64_t> fetched;
    const auto finish = [&](std::size_t at) {
      CHECK(order.filled(fetched[at], session).is_ok());
      fetched.erase(fetched.begin() + static_cast<std::ptrdiff_t>(at));
    };
    for (const std::uint64_t number : arrivals) {
      const auto bytes = bytes_of(number, size_of(number));
      if (bytes.size() > kEagerBytes) {
        auto place = order.expect(number, note(bytes.size()));
        REQUIRE(place.is_ok());
        std::memcpy(place.value(), bytes.data(), bytes.size());
        fetched.push_back(number);
      } else {
        CHECK(order.take(number, note(bytes.size()), bytes, session).is_ok());
      }
      if (!fetched.empty() && rng() % 2 == 0) finish(rng() % fetched.size());
    }
    while (!fetched.empty()) finish(rng() % fetched.size());
    for (std::uint64_t number = 0; number < kFrames; ++number) {
      const auto frame = session.take_control();
      REQUIRE(frame.has_value());
      CHECK(frame->payload == bytes_of(number, size_of(number)));
    }
    CHECK(order.next() == kFrames);
  }
}

TEST_CASE("a number that has been, comes twice or is far ahead breaks the link") {
  FrameOrder order;
  Session session;
  const auto bytes = bytes_of(0, 16);
  CHECK(order.take(0, note(16), bytes, session).is_ok());
  CHECK(order.take(0, note(16), bytes, session).code() == Code::kProtocolError);
  CHECK(order.take(2, note(16), bytes, session).is_ok());
  CHECK(order.take(2, note(16), bytes, session).code() == Code::kProtocolError);
  CHECK(order.expect(2, note(16)).status().code() == Code::kProtocolError);
  CHECK(order.take(1 + kMostAhead, note(16), bytes, session).is_ok());
  CHECK(order.take(2 + kMostAhead, note(16), bytes, session).code() == Code::kProtocolError);
  CHECK(order.take(~std::uint64_t{0}, note(16), bytes, session).code() == Code::kProtocolError);
}

TEST_CASE("a frame that is being fetched does not come a second time") {
  FrameOrder order;
  Session session;
  const auto bytes = bytes_of(0, 16);
  REQUIRE(order.expect(0, note(16)).is_ok());
  CHECK(order.take(0, note(16), bytes, session).code() == Code::kProtocolError);
  CHECK(order.next() == 0);
  CHECK(order.filled(0, session).is_ok());
  CHECK(order.next() == 1);
}

TEST_CASE("a payload of another size than its header's is no frame") {
  FrameOrder order;
  Session session;
  CHECK(order.take(0, note(17), bytes_of(0, 16), session).code() == Code::kProtocolError);
}

TEST_CASE("what is kept ahead of an awaited frame has a limit in bytes") {
  FrameOrder order;
  Session session;
  Status status;
  std::uint64_t number = 1;
  for (; status.is_ok() && number < kMostAhead; ++number) {
    status = order.expect(number, note(kMaxFramePayload)).status();
  }
  CHECK(status.code() == Code::kProtocolError);
  CHECK(status.message().find("32 MiB") != std::string::npos);
  CHECK(number - 2 == kMostBytesAhead / kMaxFramePayload);
}

}  // namespace
}  // namespace holdfast::comm
