// Which system calls a TCP pipe makes: frames that go out together, and come in together. Over
// socket pairs, whose other end sees what one call wrote.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "comm/transport/tcp.h"

namespace holdfast::comm {
namespace {

struct Message {
  std::vector<std::byte> bytes;
  SendPost send;
  RecvPost recv;
  bool touched = false;

  Message(std::uint32_t op, std::size_t size) : bytes(size, static_cast<std::byte>(op)) {
    for (Post* post : {static_cast<Post*>(&send), static_cast<Post*>(&recv)}) {
      post->key.op = op;
      post->total_bytes = size;
      post->touched = &touched;
    }
    send.data = bytes.data();
    recv.data = bytes.data();
    send.ready = recv.limit = size;
  }
};

std::vector<ssize_t> packets_at(int fd) {
  std::vector<ssize_t> sizes;
  std::vector<std::byte> room(1 << 20);
  for (;;) {
    const ssize_t count = ::recv(fd, room.data(), room.size(), MSG_DONTWAIT);
    if (count <= 0) return sizes;
    sizes.push_back(count);
  }
}

constexpr auto kHeader = static_cast<ssize_t>(kFrameHeaderBytes);

TEST_CASE("small frames that wait go out in one call") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  TcpLink link(fds[0]);
  std::deque<Message> messages;
  for (std::uint32_t op = 1; op <= 3; ++op) messages.emplace_back(op, 1000 * op);
  for (Message& m : messages) link.session().post(m.send);
  CHECK(link.pump());
  CHECK(packets_at(fds[1]) == std::vector<ssize_t>{3 * kHeader + 6000});
  for (const Message& m : messages) CHECK(m.send.finished);
  ::close(fds[1]);
}

TEST_CASE("a frame with much payload does not wait for others") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  TcpLink link(fds[0]);
  std::deque<Message> messages;
  for (std::uint32_t op = 1; op <= 2; ++op) messages.emplace_back(op, kEagerBytes);
  for (Message& m : messages) link.session().post(m.send);
  CHECK(link.pump());
  constexpr auto kWhole = kHeader + static_cast<ssize_t>(kEagerBytes);
  CHECK(packets_at(fds[1]) == std::vector<ssize_t>{kWhole, kWhole});
  ::close(fds[1]);
}

TEST_CASE("whatever sizes go together, and however little the socket takes, all arrive") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  const int little = 1;  // the kernel's least
  REQUIRE(::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
  TcpLink a(fds[0]);
  TcpLink b(fds[1]);
  const std::vector<std::size_t> sizes{0, 1,      17,      40'000, 3,     65'536,
                                       0, 16'384, 300'000, 5,      2'100, 64};
  std::deque<Message> sent;
  std::deque<Message> got;
  for (std::uint32_t op = 0; op < sizes.size(); ++op) {
    sent.emplace_back(op, sizes[op]);
    got.emplace_back(op, sizes[op]);
    got.back().bytes.assign(sizes[op], std::byte{0xee});
    got.back().recv.data = got.back().bytes.data();
    // Every other receive comes late.
    if (op % 2 == 0) b.session().post(got.back().recv);
    a.session().post(sent.back().send);
  }
  for (int turn = 0; turn < 2000; ++turn) {
    if (turn == 50) {
      for (std::uint32_t op = 1; op < sizes.size(); op += 2) b.session().post(got[op].recv);
    }
    a.set_writable();
    a.set_readable();
    b.set_writable();
    b.set_readable();
    a.pump();
    b.pump();
  }
  CHECK(a.status().is_ok());
  CHECK(b.status().is_ok());
  for (std::uint32_t op = 0; op < sizes.size(); ++op) {
    CAPTURE(op);
    CHECK(sent[op].send.finished);
    CHECK(got[op].recv.finished);
    CHECK(got[op].bytes == sent[op].bytes);
  }
}

TEST_CASE("a message that is cancelled while it waits in a call lets go of its memory") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  const int little = 1;
  REQUIRE(::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
  TcpLink a(fds[0]);
  TcpLink b(fds[1]);
  std::deque<Message> sent;
  for (std::uint32_t op = 1; op <= 3; ++op) sent.emplace_back(op, 20'000);
  for (Message& m : sent) a.session().post(m.send);
  a.pump();  // the first has gone in part, the others are in the same call
  REQUIRE_FALSE(sent[0].send.finished);
  a.cancel(sent[1].send);
  std::fill(sent[1].bytes.begin(), sent[1].bytes.end(), std::byte{0xee});
  std::deque<Message> got;
  for (std::uint32_t op = 1; op <= 3; ++op) got.emplace_back(op, 20'000);
  for (Message& m : got) {
    std::fill(m.bytes.begin(), m.bytes.end(), std::byte{0});
    b.session().post(m.recv);
  }
  for (int turn = 0; turn < 200; ++turn) {
    a.set_writable();
    b.set_readable();
    a.pump();
    b.pump();
  }
  // Its frame ends as it began.
  for (std::uint32_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(got[i].recv.finished);
    CHECK(got[i].bytes == std::vector<std::byte>(20'000, static_cast<std::byte>(i + 1)));
  }
}

}  // namespace
}  // namespace holdfast::comm
