// How late heartbeats are while bulk fills a long path: two ends of a trunk, each in a process of
// its own, whose clocks are one. The caller sends messages without a pause, and ten heartbeats a
// second; the other end tells by how much they were later than the fastest one.
//   trunk_heartbeats listen ADDRESS PORT
//   trunk_heartbeats call ADDRESS PORT SECONDS
//   trunk_heartbeats try SECONDS                 both, over loopback
// tests/bench/far_faults.py runs both over an emulated path.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "comm/transport/trunk/trunk_link.h"

namespace holdfast::comm {
namespace {

constexpr std::size_t kMessageBytes = 4U << 20;
constexpr std::size_t kMessages = 2;  // under way
constexpr Duration kHeartbeat = std::chrono::milliseconds(100);
constexpr Duration kGoodbyeTime = std::chrono::seconds(5);
constexpr TrunkTerms kTerms{1, kMostTrunkLanes};

Instant now() { return Instant{std::chrono::steady_clock::now().time_since_epoch()}; }

[[noreturn]] void stop(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in address_of(char** words) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(words[1])));
  if (::inet_pton(AF_INET, words[0], &at.sin_addr) != 1) stop(words[0]);
  return at;
}

// As production's: a small frame does not wait for the answer to the one before.
int ready(int fd) {
  const int on = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) stop("TCP_NODELAY");
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return fd;
}

int call(const sockaddr_in& at) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) stop("connect");
  return ready(fd);
}

MessageKey key_of(std::uint32_t number) { return {{1}, {0}, number, 0}; }

void rest(const TrunkLink& link) {
  pollfd waits{link.fd(), POLLIN, 0};
  ::poll(&waits, 1, 1);
}

bool turn(TrunkLink& link, Instant& looks) {
  link.set_readable();
  const bool moved = link.pump();
  if (now() >= looks) {
    link.look(now());
    looks = now() + kLookPause;
  }
  if (!moved) rest(link);
  return link.status().is_ok();
}

void send_all(const sockaddr_in& at, std::chrono::seconds time) {
  TrunkLink link({call(at)}, kTerms);
  std::vector<std::byte> bytes(kMessageBytes);
  std::array<SendPost, kMessages> posts;
  bool touched = false;
  std::uint32_t next = 0;
  const auto post = [&](SendPost& send) {
    send = {};
    send.key = key_of(next++);
    send.total_bytes = send.ready = bytes.size();
    send.data = bytes.data();
    send.touched = &touched;
    link.session().post(send);
  };
  for (SendPost& send : posts) post(send);
  std::atomic<int> further{-1};
  std::jthread caller;
  std::size_t called = 1;
  Instant looks{};
  Instant beats{};
  for (const Instant ends = now() + time; now() < ends;) {
    if (!turn(link, looks)) stop("the trunk ended");
    for (SendPost& send : posts) {
      if (send.finished) post(send);
    }
    if (now() >= beats) {
      beats = now() + kHeartbeat;
      std::vector<std::byte> stamp(sizeof(Instant));
      const Instant sent = now();
      std::memcpy(stamp.data(), &sent, sizeof sent);
      link.session().send_control(FrameKind::kHeartbeat, {}, {}, std::move(stamp));
    }
    if (const int fd = further.exchange(-1); fd >= 0) link.join({fd});
    if (called < link.wanted_lanes() && link.lanes() == called) {
      ++called;
      caller = std::jthread([&] { further = call(at); });
    }
  }
  std::printf("%zu lanes, %.1f Mbit/s\n", link.lanes(),
              static_cast<double>(next - kMessages) * kMessageBytes * 8 / 1e6 /
                  static_cast<double>(time.count()));
  link.session().send_control(FrameKind::kGoodbye, {}, {}, {});
  for (const Instant ends = now() + kGoodbyeTime; now() < ends && link.busy();) turn(link, looks);
}

void tell(std::vector<double> ms) {
  if (ms.empty()) stop("no heartbeat");
  std::ranges::sort(ms);
  const auto at = [&](double part) {
    return ms[static_cast<std::size_t>(part * static_cast<double>(ms.size() - 1))] - ms.front();
  };
  std::printf("%zu heartbeats, late by ms: median %.1f, 99 of 100 %.1f, most %.1f\n", ms.size(),
              at(0.5), at(0.99), at(1));
}

int listen_at(sockaddr_in& at) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = sizeof at;
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&at), length) != 0) stop("bind");
  if (::listen(listener, kMostTrunkLanes) != 0) stop("listen");
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &length);
  std::puts("listens");
  std::fflush(stdout);
  return listener;
}

void receive_all(int listener) {
  const int first = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (first < 0) stop("accept");
  ::fcntl(listener, F_SETFL, O_NONBLOCK);
  TrunkLink link({ready(first)}, kTerms);
  std::vector<std::byte> bytes(kMessageBytes);
  std::array<RecvPost, kMessages> posts;
  bool touched = false;
  std::uint32_t next = 0;
  const auto post = [&](RecvPost& recv) {
    recv = {};
    recv.key = key_of(next++);
    recv.total_bytes = recv.limit = bytes.size();
    recv.data = bytes.data();
    recv.touched = &touched;
    link.session().post(recv);
  };
  for (RecvPost& recv : posts) post(recv);
  std::vector<double> ms;
  Instant looks{};
  for (bool left = false; !left;) {
    if (!turn(link, looks)) break;
    for (RecvPost& recv : posts) {
      if (recv.finished) post(recv);
    }
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) link.join({ready(fd)});
    while (const auto frame = link.session().take_control()) {
      left = left || frame->header.kind == FrameKind::kGoodbye;
      if (frame->payload.size() != sizeof(Instant)) continue;
      Instant sent;
      std::memcpy(&sent, frame->payload.data(), sizeof sent);
      ms.push_back(std::chrono::duration<double, std::milli>(now() - sent).count());
    }
  }
  tell(std::move(ms));
}

}  // namespace
}  // namespace holdfast::comm

int main(int count, char** words) {
  namespace comm = holdfast::comm;
  const std::string what = count > 2 ? words[1] : "";
  if (what == "listen" && count > 3) {
    sockaddr_in at = comm::address_of(words + 2);
    comm::receive_all(comm::listen_at(at));
  } else if (what == "call" && count > 4) {
    comm::send_all(comm::address_of(words + 2), std::chrono::seconds(std::atoi(words[4])));
  } else if (what == "try") {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int listener = comm::listen_at(at);
    const std::jthread other([&] { comm::receive_all(listener); });
    comm::send_all(at, std::chrono::seconds(std::atoi(words[2])));
  } else {
    std::fprintf(
        stderr, "trunk_heartbeats listen ADDRESS PORT | call ADDRESS PORT SECONDS | try SECONDS\n");
    return 2;
  }
  return 0;
}
