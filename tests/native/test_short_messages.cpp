// Messages of at most so many bytes: their last frame says where they end. One suite over every
// transport, and what a peer that lies about it gets.
#include <doctest/doctest.h>

#include "codec_data.h"
#include "link_pairs.h"

namespace holdfast::comm {
namespace {

using testing::LinkPair;
using testing::settle;
using Bytes = std::vector<std::byte>;

// A message of `bytes`, for which the receiver has `room`.
struct Message {
  bool touched = false;
  Bytes data;
  Bytes got;
  SendPost send;
  RecvPost recv;

  Message(std::uint32_t op, std::size_t bytes, std::size_t room) : data(bytes), got(room) {
    compress::Chance chance(op + bytes);
    for (std::byte& b : data) b = static_cast<std::byte>(chance.next() >> 9);
    for (Post* post : {static_cast<Post*>(&send), static_cast<Post*>(&recv)}) {
      post->key.op = op;
      post->total_bytes = room;
      post->touched = &touched;
    }
    send.ready = room;
    send.unused = room - bytes;
    send.data = data.data();
    recv.limit = room;
    recv.data = got.data();
    recv.may_end_early = true;
  }

  void check() const {
    REQUIRE(send.finished);
    REQUIRE(recv.finished);
    CHECK(recv.done == data.size());
    CHECK(std::equal(data.begin(), data.end(), got.begin()));
    CHECK(std::all_of(got.begin() + static_cast<std::ptrdiff_t>(data.size()), got.end(),
                      [](std::byte b) { return b == std::byte{}; }));
  }
};

// Room below and above what is sent without a grant.
struct Size {
  std::size_t bytes;
  std::size_t room;
};
constexpr Size kSizes[] = {{1, 2},
                           {16, 400},
                           {32767, 32768},
                           {32768, 32768},
                           {1, 32769},
                           {20'000, 40'000},
                           {32768, 40'000},
                           {39'999, 40'000},
                           {600'000, 1 << 20},
                           {(1 << 20) - 1, 1 << 20},
                           {524288, 2 << 20}};

TEST_CASE("a message that ends early arrives with its size, whoever posts first") {
  for (const auto& row : testing::pair_transports()) {
    CAPTURE(row.name);
    LinkPair pair = row.make();
    std::uint32_t op = 0;
    for (const Size size : kSizes) {
      for (const bool early : {false, true}) {
        CAPTURE(size.bytes);
        CAPTURE(size.room);
        CAPTURE(early);
        Message m(++op, size.bytes, size.room);
        // A whole one behind it finds its place.
        Message next(++op, 5000, 5000);
        if (!early) pair.b->session().post(m.recv);
        pair.a->session().post(m.send);
        pair.a->session().post(next.send);
        settle(pair);
        if (early) pair.b->session().post(m.recv);
        pair.b->session().post(next.recv);
        settle(pair);
        m.check();
        next.check();
      }
    }
    CHECK(pair.a->session().idle());
    CHECK(pair.b->session().idle());
  }
}

TEST_CASE("a message that ends early where it may not breaks the link or fails its receive") {
  for (const auto& row : testing::pair_transports()) {
    CAPTURE(row.name);
    for (const Size size : {Size{100, 400}, Size{20'000, 40'000}}) {
      for (const bool early : {false, true}) {
        CAPTURE(early);
        CAPTURE(size.room);
        LinkPair pair = row.make();
        Message m(1, size.bytes, size.room);
        m.recv.may_end_early = false;
        if (!early) pair.b->session().post(m.recv);
        pair.a->session().post(m.send);
        settle(pair);
        if (early) pair.b->session().post(m.recv);
        settle(pair);
        CHECK_FALSE(m.recv.finished);
        const Status& told = m.recv.failed ? m.recv.failure : pair.b->status();
        CHECK(told.code() == Code::kProtocolError);
        CHECK_MESSAGE(told.message().find("ends early") != std::string::npos, told.message());
        pair.a->cancel(m.send);
        pair.b->cancel(m.recv);
      }
    }
  }
}

// What is torn off is not complete: only the frame that says so ends a message.
TEST_CASE("a message whose end has not come is not finished, and more than its room is refused") {
  bool touched = false;
  Message m(1, 40'000, 100'000);
  m.recv.touched = &touched;
  Session session;
  session.post(m.recv);
  FrameHeader header{FrameKind::kData, 30'000, m.recv.key, 0, 0, 100'000};
  REQUIRE(session.begin_frame(header).is_ok());
  CHECK(session.payload(std::span(m.data).first(30'000)) == 30'000);
  CHECK_FALSE(m.recv.finished);
  header = {FrameKind::kDataEnd, 10'000, m.recv.key, 0, 29'999, 100'000};
  CHECK_FALSE(session.begin_frame(header).is_ok());  // a gap would not be noticed otherwise
  session.cancel(m.recv);

  for (const std::uint64_t total : {99'999ULL, 100'001ULL}) {
    Session other;
    Message n(1, 40'000, 100'000);
    other.post(n.recv);
    REQUIRE(other.begin_frame({FrameKind::kDataEnd, 0, n.recv.key, 0, 0, total}).is_ok());
    CHECK(n.recv.failed);
    CHECK(n.recv.failure.message().find("calls do not match") != std::string::npos);
  }

  std::array<std::byte, kFrameHeaderBytes> wire;
  encode_header({FrameKind::kDataEnd, 11, {}, 0, 90, 100}, wire);
  CHECK_FALSE(parse_header(wire).is_ok());
  encode_header({FrameKind::kDataEnd, 10, {}, 0, 90, 100}, wire);
  CHECK(parse_header(wire).is_ok());
}

TEST_CASE("an early message that says less than it holds, or comes in pieces, breaks the link") {
  Session session;
  CHECK_FALSE(session.begin_frame({FrameKind::kEager, 10, {}, 0, 5, 100}).is_ok());
  Session other;
  CHECK_FALSE(other.begin_frame({FrameKind::kEager, 10, {}, 0, 0, kEagerBytes + 1}).is_ok());
}

}  // namespace
}  // namespace holdfast::comm
