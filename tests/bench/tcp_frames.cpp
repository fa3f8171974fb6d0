// Messages over a TCP link, one after the other, for counting instructions: as many as are asked
// for, of one size. The difference of two runs is what the messages took, without the start.
//
//   for n in 200 2200; do valgrind --tool=callgrind tcp_frames $n 64; done
#include <sys/socket.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "comm/transport/tcp.h"

namespace holdfast::comm {
namespace {

bool carry(TcpLink& a, TcpLink& b, std::uint32_t op, std::vector<std::byte>& out,
           std::vector<std::byte>& in) {
  constexpr int kMostTurns = 1000;
  bool touched = false;
  SendPost send;
  RecvPost receive;
  for (Post* post : {static_cast<Post*>(&send), static_cast<Post*>(&receive)}) {
    post->key.op = op;
    post->total_bytes = out.size();
    post->touched = &touched;
  }
  send.data = out.data();
  receive.data = in.data();
  send.ready = receive.limit = out.size();
  b.session().post(receive);
  a.session().post(send);
  for (int turn = 0; turn < kMostTurns && !(send.finished && receive.finished); ++turn) {
    for (TcpLink* link : {&a, &b}) {
      link->set_readable();
      link->set_writable();
      link->pump();
    }
  }
  return send.finished && receive.finished;
}

bool carry_all(std::uint32_t messages, std::size_t bytes) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) return false;
  TcpLink a(fds[0]);
  TcpLink b(fds[1]);
  std::vector<std::byte> out(bytes);
  std::vector<std::byte> in(bytes);
  for (std::uint32_t op = 0; op < messages; ++op) {
    if (!carry(a, b, op, out, in)) return false;
  }
  return true;
}

}  // namespace
}  // namespace holdfast::comm

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "tcp_frames MESSAGES BYTES\n");
    return 2;
  }
  const auto messages = static_cast<std::uint32_t>(std::strtoul(words[1], nullptr, 10));
  return holdfast::comm::carry_all(messages, std::strtoul(words[2], nullptr, 10)) ? 0 : 1;
}
