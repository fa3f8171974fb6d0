// Pairs of connected links inside one test process, one maker per transport: the rows of the
// conformance suite.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/transport/inproc.h"
#include "comm/transport/shm.h"
#include "comm/transport/tcp.h"
#include "comm/transport/trunk/trunk_link.h"
#include "comm/transport/ucx/ucx.h"
#include "sealed_pair.h"

namespace holdfast::comm::testing {

struct LinkPair {
  std::vector<std::unique_ptr<UcxWorker>> workers;  // of UCX, which outlive the links
  std::unique_ptr<Link> a;
  std::unique_ptr<Link> b;
  std::vector<Segment> bells;
  std::chrono::milliseconds quiet{0};  // without a move, until nothing more comes
};

struct TransportRow {
  std::string name;
  std::function<LinkPair()> make;
};

// There is no poller here: every turn pretends that the sockets may be ready.
inline bool pump(Link& link) {
  if (auto* stream = dynamic_cast<StreamLink*>(&link)) {
    stream->set_readable();
    stream->set_writable();
  }
  bool moved = false;
  if (auto* ucx = dynamic_cast<UcxLink*>(&link)) moved = ucx->worker().progress();
  return link.pump() || moved;
}

// Until nothing moves any more.
inline void settle(LinkPair& pair) {
  auto moved_at = std::chrono::steady_clock::now();
  for (int idle = 0; idle < 3 || std::chrono::steady_clock::now() < moved_at + pair.quiet;) {
    const bool moved_a = pump(*pair.a);
    const bool moved_b = pump(*pair.b);
    idle = moved_a || moved_b ? 0 : idle + 1;
    if (idle == 0) moved_at = std::chrono::steady_clock::now();
  }
}

inline LinkPair make_shm() {
  LinkPair pair;
  auto link = std::move(create_shm_link()).value();
  auto peer = std::move(Segment::open_growing(link.name(), kShmLinkBytes)).value();
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

// A stream socket pair behaves as a loopback connection does, without a port to choose.
inline std::array<int, 2> make_sockets() {
  std::array<int, 2> fds{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
  return fds;
}

inline LinkPair make_tcp() {
  const auto fds = make_sockets();
  return {{}, std::make_unique<TcpLink>(fds[0]), std::make_unique<TcpLink>(fds[1]), {}};
}

inline LinkPair make_trunk() {
  constexpr TrunkTerms kTerms{7, 4};
  auto fds = make_sockets();
  auto a = std::make_unique<TrunkLink>(Connection{fds[0]}, kTerms);
  auto b = std::make_unique<TrunkLink>(Connection{fds[1]}, kTerms);
  for (unsigned lane = 1; lane < kTerms.lanes; ++lane) {
    fds = make_sockets();
    a->join({fds[0]});
    b->join({fds[1]});
  }
  return {{}, std::move(a), std::move(b), {}};
}

inline LinkPair make_sealed() {
  static const runtime::testing::SecretFile secret;
  static const auto sealer = secret.sealer();
  auto ends = runtime::testing::make_sealed_ends(*sealer);
  return {{}, std::make_unique<TcpLink>(ends.end(0)), std::make_unique<TcpLink>(ends.end(1)), {}};
}

inline LinkPair make_inproc() {
  auto [a, b] = make_inproc_pair();
  return {{}, std::move(a), std::move(b), {}};
}

// Each end has a worker of its own, as in two processes.
inline LinkPair make_ucx() {
  LinkPair pair;
  std::vector<std::unique_ptr<UcxLink>> ends;
  for (int i = 0; i < 2; ++i) {
    auto worker = UcxWorker::create();
    REQUIRE_MESSAGE(worker.is_ok(), worker.status().message());
    pair.workers.push_back(std::move(worker).value());
    ends.push_back(pair.workers.back()->make_link());
  }
  ends[0]->connect(ends[1]->card());
  ends[1]->connect(ends[0]->card());
  pair.a = std::move(ends[0]);
  pair.b = std::move(ends[1]);
  // What was sent is in the kernel's buffers, or a thread of UCX's is about to put it there.
  pair.quiet = std::chrono::milliseconds(50);
  // The first frames wait for UCX to connect.
  pair.a->session().send_control(FrameKind::kHeartbeat, {}, {}, {});
  pair.b->session().send_control(FrameKind::kHeartbeat, {}, {}, {});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (bool a = false, b = false; !a || !b;) {
    pump(*pair.a);
    pump(*pair.b);
    a = a || pair.a->session().take_control();
    b = b || pair.b->session().take_control();
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
  return pair;
}

// Of which a world of many ranks can be made.
inline const std::vector<TransportRow>& transports() {
  static const std::vector<TransportRow> rows = [] {
    std::vector<TransportRow> all{
        {"inproc", make_inproc}, {"shm", make_shm}, {"tcp", make_tcp}, {"trunk", make_trunk}};
    if (secure::available()) all.push_back({"tcp, sealed", make_sealed});
    return all;
  }();
  return rows;
}
// With UCX, of which a pair is enough: each end has a worker, with threads and sockets.
inline std::vector<TransportRow> pair_transports() {
  std::vector<TransportRow> rows = transports();
  if (const auto version = ucx_version(); version.is_ok()) {
    rows.push_back({"ucx", make_ucx});
  } else {
    MESSAGE("no rows of ucx: the test waits for libucp. " << version.status().message());
  }
  return rows;
}

}  // namespace holdfast::comm::testing
