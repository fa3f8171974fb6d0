// Conformance of transports: one suite, run over every row of link_pairs.h.
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "comm/transport/catalogue.h"
#include "link_pairs.h"

namespace holdfast::comm {
namespace {

using testing::LinkPair;
using testing::settle;
using testing::TransportRow;

struct Sender {
  SendPost post;
  bool touched = false;
  Sender(std::uint32_t op, std::span<const std::byte> bytes) {
    post.key.op = op;
    post.total_bytes = bytes.size();
    post.ready = bytes.size();
    post.data = bytes.data();
    post.touched = &touched;
  }
};

struct Receiver {
  RecvPost post;
  bool touched = false;
  Receiver(std::uint32_t op, std::span<std::byte> bytes) {
    post.key.op = op;
    post.total_bytes = bytes.size();
    post.limit = bytes.size();
    post.data = bytes.data();
    post.touched = &touched;
  }
};

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xff);
  }
  return out;
}

const std::vector<std::size_t> kSizes{0,     1,     7,      64,        4096,   32768,
                                      65536, 65537, 131072, 1'000'003, 9 << 20};

void for_each_transport(const std::function<void(LinkPair&)>& body) {
  for (const TransportRow& row : testing::pair_transports()) {
    CAPTURE(row.name);
    LinkPair pair = row.make();
    body(pair);
  }
}

TEST_CASE("messages of every size arrive intact, receive posted first") {
  for_each_transport([](LinkPair& pair) {
    for (const std::size_t bytes : kSizes) {
      CAPTURE(bytes);
      const auto data = pattern(bytes, 3);
      std::vector<std::byte> got(bytes);
      Receiver r(static_cast<std::uint32_t>(bytes), got);
      Sender s(static_cast<std::uint32_t>(bytes), data);
      pair.b->session().post(r.post);
      settle(pair);
      CHECK_FALSE(r.post.finished);
      pair.a->session().post(s.post);
      settle(pair);
      CHECK(s.post.finished);
      CHECK(r.post.finished);
      CHECK(r.touched);
      CHECK(got == data);
    }
    CHECK(pair.a->session().idle());
    CHECK(pair.b->session().idle());
  });
}

TEST_CASE("early messages wait for their receive") {
  for_each_transport([](LinkPair& pair) {
    for (const std::size_t bytes : kSizes) {
      CAPTURE(bytes);
      const auto data = pattern(bytes, 5);
      std::vector<std::byte> got(bytes);
      Sender s(1, data);
      pair.a->session().post(s.post);
      settle(pair);
      Receiver r(1, got);
      pair.b->session().post(r.post);
      settle(pair);
      CHECK(s.post.finished);
      CHECK(r.post.finished);
      CHECK(got == data);
    }
  });
}

TEST_CASE("messages match by key, in whatever order they are posted") {
  for_each_transport([](LinkPair& pair) {
    constexpr std::uint32_t kCount = 40;
    std::vector<std::vector<std::byte>> data;
    std::vector<std::vector<std::byte>> got;
    std::vector<std::unique_ptr<Sender>> sends;
    std::vector<std::unique_ptr<Receiver>> recvs;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      data.push_back(pattern(i * 4001, i));
      got.emplace_back(i * 4001);
    }
    for (std::uint32_t i = 0; i < kCount; ++i) {
      sends.push_back(std::make_unique<Sender>(i, data[i]));
      pair.a->session().post(sends.back()->post);
    }
    for (std::uint32_t i = kCount; i-- > 0;) {
      recvs.push_back(std::make_unique<Receiver>(i, got[i]));
      pair.b->session().post(recvs.back()->post);
    }
    settle(pair);
    for (std::uint32_t i = 0; i < kCount; ++i) CHECK(got[i] == data[i]);
    for (const auto& r : recvs) CHECK(r->post.finished);
  });
}

TEST_CASE("both directions stream at once") {
  for_each_transport([](LinkPair& pair) {
    const auto one = pattern(5 << 20, 1);
    const auto two = pattern(5 << 20, 2);
    std::vector<std::byte> got_one(one.size());
    std::vector<std::byte> got_two(two.size());
    Sender s1(1, one);
    Sender s2(2, two);
    Receiver r1(1, got_one);
    Receiver r2(2, got_two);
    pair.a->session().post(s1.post);
    pair.a->session().post(r2.post);
    pair.b->session().post(s2.post);
    pair.b->session().post(r1.post);
    settle(pair);
    CHECK(got_one == one);
    CHECK(got_two == two);
  });
}

void add_u8(void* dst, const void* lhs, const void* rhs, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    static_cast<std::uint8_t*>(dst)[i] = static_cast<std::uint8_t>(
        static_cast<const std::uint8_t*>(lhs)[i] + static_cast<const std::uint8_t*>(rhs)[i]);
  }
}

TEST_CASE("a receive reduces on arrival and streams through a window") {
  for_each_transport([](LinkPair& pair) {
    constexpr std::size_t kBytes = 3 << 20;
    constexpr std::uint64_t kWindow = 1 << 18;
    const auto data = pattern(kBytes, 9);
    const auto operand = pattern(kBytes, 77);
    std::vector<std::byte> window(kWindow);
    std::vector<std::byte> collected;
    Sender s(1, data);
    Receiver r(1, window);
    r.post.total_bytes = kBytes;
    r.post.window = kWindow;
    r.post.limit = kWindow;
    r.post.combine.kernel = add_u8;
    r.post.combine.operand = operand.data();
    pair.b->session().post(r.post);
    pair.a->session().post(s.post);
    while (collected.size() < kBytes) {
      settle(pair);
      const std::size_t before = collected.size();
      REQUIRE(r.post.done > before);
      REQUIRE(r.post.done <= r.post.limit);
      for (std::size_t i = before; i < r.post.done; ++i) collected.push_back(window[i % kWindow]);
      r.post.limit = std::min<std::uint64_t>(kBytes, collected.size() + kWindow);
      pair.b->session().resume(r.post);
    }
    std::vector<std::byte> expected(kBytes);
    add_u8(expected.data(), data.data(), operand.data(), kBytes);
    CHECK(collected == expected);
    CHECK(r.post.finished);
  });
}

TEST_CASE("cancelled posts leave the link usable and their memory alone") {
  for_each_transport([](LinkPair& pair) {
    const auto data = pattern(4 << 20, 4);
    std::vector<std::byte> got(data.size());
    {
      auto doomed = data;
      Sender s(1, doomed);
      Receiver r(1, got);
      pair.b->session().post(r.post);
      pair.a->session().post(s.post);
      for (int i = 0; i < 3; ++i) testing::pump(*pair.b), testing::pump(*pair.a);
      pair.a->cancel(s.post);
      pair.b->cancel(r.post);
    }
    pair.a->session().retire({}, {});
    pair.b->session().retire({}, {});
    const Epoch next{1};
    Sender s(2, data);
    Receiver r(2, got);
    s.post.key.epoch = r.post.key.epoch = next;
    pair.a->session().post(s.post);
    pair.b->session().post(r.post);
    settle(pair);
    CHECK(pair.a->status().is_ok());
    CHECK(pair.b->status().is_ok());
    CHECK(r.post.finished);
    CHECK(got == data);
  });
}

TEST_CASE("frames of an ended epoch are dropped") {
  for_each_transport([](LinkPair& pair) {
    const auto data = pattern(1000, 4);
    Sender early(1, data);
    pair.a->session().post(early.post);
    settle(pair);
    pair.b->session().retire({}, {});
    Sender late(2, data);
    pair.a->session().post(late.post);
    settle(pair);
    CHECK(pair.b->session().dropped_frames() == 1);
    std::vector<std::byte> got(data.size());
    Receiver r(1, got);
    pair.b->session().post(r.post);
    settle(pair);
    CHECK_FALSE(r.post.finished);
    pair.b->cancel(r.post);
  });
}

TEST_CASE("calls that do not match fail on the rank that can tell") {
  for_each_transport([](LinkPair& pair) {
    for (const auto& sizes : std::vector<std::pair<std::size_t, std::size_t>>{
             {100, 200}, {100, 1 << 20}, {1 << 20, 100}, {1 << 20, 2 << 20}}) {
      const std::size_t mine = sizes.first;
      const std::size_t theirs = sizes.second;
      CAPTURE(mine);
      CAPTURE(theirs);
      const auto data = pattern(theirs, 4);
      std::vector<std::byte> got(mine);
      Sender s(1, data);
      Receiver r(1, got);
      pair.a->session().post(s.post);
      pair.b->session().post(r.post);
      settle(pair);
      CHECK((r.post.failed || s.post.failed));
      const Status& why = r.post.failed ? r.post.failure : s.post.failure;
      CHECK(why.code() == Code::kProtocolError);
      CHECK(why.message().find(std::to_string(mine)) != std::string::npos);
      pair.a->cancel(s.post);
      pair.b->cancel(r.post);
      pair.a->session().retire({}, {});
    }
  });
}

TEST_CASE("the death of a peer is seen by stream transports") {
  for (const auto& make : {testing::make_inproc, testing::make_tcp}) {
    LinkPair pair = make();
    std::vector<std::byte> got(100);
    Receiver r(1, got);
    pair.b->session().post(r.post);
    settle(pair);
    pair.a.reset();
    for (int i = 0; i < 3; ++i) testing::pump(*pair.b);
    CHECK(pair.b->status().code() == Code::kPeerLost);
    CHECK_FALSE(r.post.finished);
    pair.b->cancel(r.post);
  }
}

TEST_CASE("the death of a peer is seen over UCX, when UCX says so") {
  if (!ucx_version().is_ok()) return;  // waits for libucp, as pair_transports() has said
  LinkPair pair = testing::make_ucx();
  std::vector<std::byte> got(1 << 20);
  const auto data = pattern(got.size(), 6);
  Receiver r(1, got);
  Sender s(2, data);
  pair.b->session().post(r.post);
  pair.b->session().post(s.post);
  settle(pair);
  pair.a.reset();
  pair.workers[0].reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (pair.b->status().is_ok() && std::chrono::steady_clock::now() < deadline) {
    testing::pump(*pair.b);
  }
  CHECK(pair.b->status().code() == Code::kPeerLost);
  // It may be the connection alone.
  CHECK_FALSE(pair.b->closed_by_peer());
  CHECK_FALSE(r.post.finished);
  pair.b->cancel(r.post);
  pair.b->cancel(s.post);
}

TEST_CASE("each row of the catalogue is whole") {
  for (const comm::TransportRow& row : comm::transports()) {
    CAPTURE(row.name);
    CHECK(comm::transports()[*comm::transport_index(row.name)].title == row.title);
    // What carries no control channel makes paths beside one, and says something of them.
    CHECK((row.make_stream != nullptr || row.open != nullptr));
    CHECK((row.open != nullptr) == (row.max_offer > 0));
    REQUIRE((row.look != nullptr));
    const auto found = row.look();
    CHECK((found.is_ok() || !found.status().message().empty()));
  }
  CHECK_FALSE(comm::transport_index("pigeons"));
}

TEST_CASE("a card that is none makes a UCX link fail, and a stranger's frames are nobody's") {
  if (!ucx_version().is_ok()) return;  // likewise
  auto worker = UcxWorker::create();
  REQUIRE(worker.is_ok());
  for (const std::string& card : {std::string(), std::string("00112233445566"), std::string("0"),
                                  std::string(64, 'x'), std::string(2 * kMaxUcxCard, '0')}) {
    auto link = worker.value()->make_link();
    link->connect(card);
    CHECK(link->status().code() == Code::kProtocolError);
  }
  LinkPair pair = testing::make_ucx();
  // Of the same process, with a name that it has given to nobody.
  auto stranger = worker.value()->make_link();
  std::string card = static_cast<UcxLink&>(*pair.b).card();
  card[0] = card[0] == '0' ? '1' : '0';
  stranger->connect(card);
  const auto data = pattern(300, 1);
  Sender s(1, data);
  stranger->session().post(s.post);
  std::vector<std::byte> got(300);
  Receiver r(1, got);
  pair.b->session().post(r.post);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!s.post.finished && std::chrono::steady_clock::now() < deadline) {
    testing::pump(*stranger);
    testing::pump(*pair.b);
  }
  settle(pair);
  CHECK(s.post.finished);
  CHECK_FALSE(r.post.finished);
  CHECK(pair.b->status().is_ok());
  pair.b->cancel(r.post);
}

TEST_CASE("control frames pass beside data") {
  for_each_transport([](LinkPair& pair) {
    const auto note = pattern(300, 1);
    pair.a->session().send_control(FrameKind::kRevoke, {7}, {3}, note);
    settle(pair);
    const auto frame = pair.b->session().take_control();
    REQUIRE(frame.has_value());
    CHECK(frame->header.key.comm == CommId{7});
    CHECK(frame->payload == note);
    CHECK_FALSE(pair.b->session().take_control().has_value());
  });
}

TEST_CASE("strangers' bytes close the link") {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
  TcpLink link(fds[0]);
  const std::string request = "GET / HTTP/1.1\r\nHost: example\r\nUser-Agent: somebody\r\n\r\n";
  REQUIRE(::send(fds[1], request.data(), request.size(), 0) > 0);
  link.pump();
  CHECK(link.status().code() == Code::kProtocolError);
  ::close(fds[1]);
}

}  // namespace
}  // namespace holdfast::comm
