// What the kernel says of a connection's path: of one that is full, and of what is none.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "base/net/tcp_path.h"

namespace holdfast {
namespace {

// Two ends of a connection over loopback.
std::array<int, 2> connected() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* at = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  REQUIRE(::bind(listener, at, length) == 0);
  REQUIRE(::listen(listener, 1) == 0);
  REQUIRE(::getsockname(listener, at, &length) == 0);
  const int caller = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(::connect(caller, at, length) == 0);
  const int answerer = ::accept(listener, nullptr, nullptr);
  REQUIRE(answerer >= 0);
  ::close(listener);
  return {caller, answerer};
}

TEST_CASE("a connection that was full has a rate and round trips") {
  const std::array<int, 2> ends = connected();
  const int caller = ends[0];
  const int answerer = ends[1];
  constexpr std::size_t kBytes = 64 << 20;
  std::size_t received = 0;
  std::thread reader([answerer, &received] {
    std::vector<char> into(1 << 16);
    while (received < kBytes) {
      const ssize_t got = ::recv(answerer, into.data(), into.size(), 0);
      if (got <= 0) return;
      received += static_cast<std::size_t>(got);
    }
  });
  const std::vector<char> block(1 << 20);
  for (std::size_t sent = 0; sent < kBytes;) {
    const ssize_t gone = ::send(caller, block.data(), block.size(), MSG_NOSIGNAL);
    REQUIRE(gone > 0);
    sent += static_cast<std::size_t>(gone);
  }
  reader.join();
  CHECK(received == kBytes);
  const auto path = tcp_path(caller);
  REQUIRE(path.has_value());
  CHECK(path->round_trip_ns > 0);
  CHECK(path->least_round_trip_ns > 0);
  CHECK(path->least_round_trip_ns < 10'000'000'000);
  CHECK(path->bytes_per_s > 1'000'000);  // loopback
  ::close(caller);
  ::close(answerer);
}

TEST_CASE("what is no TCP connection has no path") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  CHECK_FALSE(tcp_path(ends[0]).has_value());
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK_FALSE(tcp_path(-1).has_value());
}

}  // namespace
}  // namespace holdfast
