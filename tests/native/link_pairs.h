// Pairs of connected links inside one test process, one maker per transport: the rows of the
// conformance suite.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport/inproc.h"
#include "comm/transport/shm.h"
#include "comm/transport/tcp.h"

namespace holdfast::comm::testing {

struct LinkPair {
  std::unique_ptr<Link> a;
  std::unique_ptr<Link> b;
  std::vector<Segment> bells;
};

struct TransportRow {
  std::string name;
  std::function<LinkPair()> make;
};

inline LinkPair make_shm() {
  LinkPair pair;
  auto link = std::move(Segment::create("testlink", kShmLinkBytes)).value();
  auto peer = std::move(Segment::open(link.name(), kShmLinkBytes)).value();
  for (int i = 0; i < 2; ++i) {
    pair.bells.push_back(std::move(Segment::create("testbell", sizeof(BellWords))).value());
  }
  const auto bell = [&](std::size_t i) {
    return Bell(reinterpret_cast<BellWords*>(pair.bells[i].data()));
  };
  link.unlink();
  pair.a = std::make_unique<ShmLink>(std::move(link), true, bell(1), nullptr);
  pair.b = std::make_unique<ShmLink>(std::move(peer), false, bell(0), nullptr);
  return pair;
}

inline LinkPair make_tcp() {
  int fds[2];
  // A stream socket pair behaves as a loopback connection does, without a port to choose.
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
  return {std::make_unique<TcpLink>(fds[0]), std::make_unique<TcpLink>(fds[1]), {}};
}

inline LinkPair make_inproc() {
  auto [a, b] = make_inproc_pair();
  return {std::move(a), std::move(b), {}};
}

inline const std::vector<TransportRow>& transports() {
  static const std::vector<TransportRow> rows{
      {"inproc", make_inproc}, {"shm", make_shm}, {"tcp", make_tcp}};
  return rows;
}

// There is no poller here: every turn pretends that the sockets may be ready.
inline bool pump(Link& link) {
  if (auto* tcp = dynamic_cast<TcpLink*>(&link)) {
    tcp->set_readable();
    tcp->set_writable();
  }
  return link.pump();
}

}  // namespace holdfast::comm::testing
