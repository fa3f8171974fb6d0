// How far a sender may be ahead: everything arrives in the end, whoever asks for what and when, and
// what a session keeps for that has a limit. credit.h has the rule and why it cannot deadlock.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "codec_data.h"
#include "link_pairs.h"
#include "sanitized.h"

namespace holdfast::comm {
namespace {

using compress::Chance;
using holdfast::testing::kSanitized;
using testing::LinkPair;
using testing::settle;
using Bytes = std::vector<std::byte>;

// Eight of the largest eager messages, and four notices.
const EarlyLimits kLow{8 * early_cost(kEagerBytes), 4};

Bytes bytes_of(std::uint32_t seed, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(seed * 7 + i * 31);
  return bytes;
}

struct Message {
  bool touched = false;
  Bytes data;
  Bytes got;
  SendPost send;
  RecvPost recv;

  Message(std::uint32_t op, std::size_t bytes, CommId comm = {})
      : data(bytes_of(op, bytes)), got(bytes) {
    for (Post* post : {static_cast<Post*>(&send), static_cast<Post*>(&recv)}) {
      post->key = {comm, {}, op, 0};
      post->total_bytes = bytes;
      post->touched = &touched;
    }
    send.ready = recv.limit = bytes;
    send.data = data.data();
    recv.data = got.data();
  }

  void check() const {
    REQUIRE(send.finished);
    REQUIRE(recv.finished);
    CHECK(got == data);
  }
};
using Messages = std::vector<std::unique_ptr<Message>>;

Messages make_messages(std::size_t count, std::size_t bytes, CommId comm = {}) {
  Messages messages;
  for (std::uint32_t i = 0; i < count; ++i) {
    messages.push_back(std::make_unique<Message>(i, bytes, comm));
  }
  return messages;
}

void limit(LinkPair& pair, const EarlyLimits& limits) {
  for (Link* link : {pair.a.get(), pair.b.get()}) link->session().limit_early(limits);
}

void check_links(LinkPair& pair) {
  for (Link* link : {pair.a.get(), pair.b.get()}) {
    CHECK_MESSAGE(link->status().is_ok(), link->status().message());
    CHECK(link->session().early_bytes() == 0);
    CHECK(link->session().idle());
  }
}

// As many as the limit allows go out unasked, so no credit is lost.
void check_credit(LinkPair& pair, const EarlyLimits& limits) {
  settle(pair);
  const CommId own{0x77};
  Messages full = make_messages(limits.bytes * 3 / 4 / early_cost(kEagerBytes), kEagerBytes, own);
  for (const auto& m : full) pair.a->session().post(m->send);
  settle(pair);
  for (const auto& m : full) {
    CHECK(m->send.finished);
    pair.b->session().post(m->recv);
    m->check();
  }
  settle(pair);
  check_links(pair);
}

void for_each_pair(const EarlyLimits& limits, const std::function<void(LinkPair&)>& body) {
  for (const auto& row : testing::transports()) {
    CAPTURE(row.name);
    LinkPair pair = row.make();
    limit(pair, limits);
    body(pair);
    for (int i = 0; i < 3; ++i) check_credit(pair, limits);
  }
}

TEST_CASE("a flood of early messages waits for its receiver, whatever their size") {
  for_each_pair(kLow, [](LinkPair& pair) {
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{5000}, kEagerBytes}) {
      CAPTURE(bytes);
      const std::size_t fit = kLow.bytes / early_cost(bytes);
      Messages messages = make_messages(fit + fit / 2 + 10, bytes);
      for (const auto& m : messages) pair.a->session().post(m->send);
      settle(pair);
      CHECK(pair.b->session().early_bytes() <= kLow.bytes);
      CHECK(pair.b->session().early_bytes() > kLow.bytes / 2);
      CHECK_FALSE(messages.back()->send.finished);
      for (const auto& m : messages) {
        pair.b->session().post(m->recv);
        if (bytes >= 5000) settle(pair);
      }
      settle(pair);
      for (const auto& m : messages) m->check();
    }
  });
}

// The limits that a process has; a sender is ahead by 280 MiB.
TEST_CASE("4300 messages of 64 KiB begun while the receiver is late arrive") {
  for (const auto& row : testing::transports()) {
    if (kSanitized && row.name != "tcp") continue;
    CAPTURE(row.name);
    LinkPair pair = row.make();
    const Bytes data = bytes_of(1, kEagerBytes);
    Bytes got(kEagerBytes);
    Messages messages = make_messages(4300, 0);
    for (const auto& m : messages) {
      m->send.total_bytes = m->recv.total_bytes = m->send.ready = m->recv.limit = kEagerBytes;
      m->send.data = data.data();
      m->recv.data = got.data();
      pair.a->session().post(m->send);
    }
    settle(pair);
    CHECK(pair.b->session().early_bytes() <= EarlyLimits().bytes);
    for (const auto& m : messages) {
      std::fill(got.begin(), got.end(), std::byte{});
      pair.b->session().post(m->recv);
      while (!m->recv.finished) settle(pair);
      REQUIRE(got == data);
    }
    settle(pair);
    for (const auto& m : messages) CHECK(m->send.finished);
    check_links(pair);
  }
}

TEST_CASE("without credit a message comes when it is asked for, in any order") {
  for_each_pair(kLow, [](LinkPair& pair) {
    Messages messages = make_messages(40, kEagerBytes);
    for (const auto& m : messages) pair.a->session().post(m->send);
    settle(pair);
    // The last first: all that are kept are still unread, so no credit comes back for it.
    for (std::size_t i = messages.size(); i-- > 0;) {
      pair.b->session().post(messages[i]->recv);
      settle(pair);
      messages[i]->check();
    }
  });
}

TEST_CASE("one communicator's flood does not hold up another's messages") {
  for_each_pair(kLow, [](LinkPair& pair) {
    Messages flood = make_messages(30, kEagerBytes, {1});
    for (const auto& m : flood) pair.a->session().post(m->send);
    settle(pair);
    for (std::uint32_t op = 0; op < 50; ++op) {
      Message before(op, 1000, {2});  // its receive is posted before it
      Message after(op, 1000, {3});
      Message large(op, 100'000, {2});
      large.send.key.ordinal = large.recv.key.ordinal = 1;
      pair.b->session().post(before.recv);
      for (Message* m : {&before, &after, &large}) pair.a->session().post(m->send);
      settle(pair);
      for (Message* m : {&after, &large}) pair.b->session().post(m->recv);
      settle(pair);
      for (Message* m : {&before, &after, &large}) m->check();
    }
    for (const auto& m : flood) pair.b->session().post(m->recv);
    settle(pair);
    for (const auto& m : flood) m->check();
  });
}

TEST_CASE("a view that ends gives back the credit of its messages, wherever they are") {
  for_each_pair(kLow, [](LinkPair& pair) {
    for (std::uint64_t view = 1; view <= 5; ++view) {
      CAPTURE(view);
      Messages messages = make_messages(30, kEagerBytes, {view});
      for (const auto& m : messages) pair.a->session().post(m->send);
      // Some frames are under way, some queued, some have no credit.
      const auto pumps = static_cast<int>(3 * (view - 1));
      for (int i = 0; i < pumps; ++i) testing::pump(*pair.a), testing::pump(*pair.b);
      pair.b->session().post(messages[0]->recv);
      pair.b->session().post(messages[29]->recv);
      if (view % 2 == 0) pair.b->session().retire({view}, {});
      for (const auto& m : messages) pair.a->cancel(m->send);
      pair.a->session().retire({view}, {});
      for (const auto& m : messages) pair.b->cancel(m->recv);
      pair.b->session().retire({view}, {});
      settle(pair);
      CHECK(pair.b->session().early_bytes() == 0);
    }
  });
}

TEST_CASE("receives that are cancelled cost no credit, granted or not") {
  for_each_pair(kLow, [](LinkPair& pair) {
    for (std::uint32_t round = 0; round < 20; ++round) {
      Messages messages = make_messages(20, kEagerBytes, {round + 1});
      for (const auto& m : messages) pair.a->session().post(m->send);
      if (round % 2 == 0) settle(pair);
      for (const auto& m : messages) pair.b->session().post(m->recv);
      testing::pump(*pair.b);
      for (const auto& m : messages) pair.b->cancel(m->recv);
      settle(pair);
      for (const auto& m : messages) pair.a->cancel(m->send);
      for (Link* link : {pair.a.get(), pair.b.get()}) link->session().retire({round + 1}, {});
    }
  });
}

TEST_CASE("calls that do not match are told apart where one waits for credit") {
  for_each_pair(kLow, [](LinkPair& pair) {
    Messages flood = make_messages(12, kEagerBytes, {1});
    for (const auto& m : flood) pair.a->session().post(m->send);
    settle(pair);
    for (const bool early : {false, true}) {
      for (const std::size_t bytes : {std::size_t{200}, std::size_t{1} << 20}) {
        Message mine(1, bytes, {2});
        Message theirs(1, 100, {2});
        if (early) pair.b->session().post(mine.recv);
        if (early) settle(pair);
        pair.a->session().post(theirs.send);
        settle(pair);
        if (!early) pair.b->session().post(mine.recv);
        settle(pair);
        CHECK((mine.recv.failed || theirs.send.failed));
        pair.a->cancel(theirs.send);
        pair.b->cancel(mine.recv);
      }
    }
    for (Link* link : {pair.a.get(), pair.b.get()}) link->session().retire({2}, {});
    for (const auto& m : flood) pair.b->session().post(m->recv);
    settle(pair);
    for (const auto& m : flood) m->check();
  });
}

// Announces and grants beyond the limit are forgotten, and the messages come all the same.
TEST_CASE("large messages are announced and granted in any order, beyond the limit of notices") {
  for_each_pair(kLow, [](LinkPair& pair) {
    for (const bool sends_first : {true, false}) {
      for (const bool backwards : {true, false}) {
        Messages messages = make_messages(20, kEagerBytes + 1);
        const auto send_all = [&] {
          for (const auto& m : messages) pair.a->session().post(m->send);
        };
        if (sends_first) send_all();
        settle(pair);
        if (backwards) std::reverse(messages.begin(), messages.end());
        for (const auto& m : messages) pair.b->session().post(m->recv);
        settle(pair);
        if (!sends_first) send_all();
        settle(pair);
        for (const auto& m : messages) m->check();
      }
    }
  });
}

// As a receive from any source does, which has a key to look for and nothing to post.
TEST_CASE("a message that is looked for is found among any number of others") {
  for_each_pair(kLow, [](LinkPair& pair) {
    for (const std::size_t bytes : {std::size_t{100}, kEagerBytes + 1}) {
      CAPTURE(bytes);
      Messages flood = make_messages(30, kEagerBytes, {1});
      for (const auto& m : flood) pair.a->session().post(m->send);
      settle(pair);
      for (const bool before : {false, true}) {
        for (std::uint32_t tag = 0; tag < 10; ++tag) {
          Message wanted(tag, bytes, {2});
          wanted.send.key.ordinal = wanted.recv.key.ordinal = before ? 1 : 0;
          const MessageKey key = wanted.recv.key;
          if (before) {
            CHECK_FALSE(pair.b->session().has_arrived(key));
            settle(pair);
          }
          pair.a->session().post(wanted.send);
          settle(pair);
          if (!pair.b->session().has_arrived(key)) settle(pair);
          REQUIRE(pair.b->session().has_arrived(key));
          pair.b->session().post(wanted.recv);
          settle(pair);
          wanted.check();
        }
      }
      for (const auto& m : flood) pair.b->session().post(m->recv);
      settle(pair);
      for (const auto& m : flood) m->check();
    }
  });
}

TEST_CASE("any messages, posted at any times at both ends, arrive") {
  const int seeds = kSanitized ? 20 : 100;
  for (const auto& row : testing::pair_transports()) {
    CAPTURE(row.name);
    LinkPair pair = row.make();
    limit(pair, kLow);
    const int runs = pair.workers.empty() ? seeds : 4;  // UCX takes long to be quiet
    for (int seed = 0; seed < runs; ++seed) {
      CAPTURE(seed);
      Chance chance(static_cast<std::uint64_t>(seed));
      Messages messages;
      std::vector<std::pair<bool, Message*>> posts;  // whether it is the send
      for (std::uint32_t i = 0; i < 60; ++i) {
        const std::size_t sizes[] = {0,      1, 3000, kEagerBytes, kEagerBytes, kEagerBytes + 1,
                                     300'000};
        messages.push_back(std::make_unique<Message>(i, sizes[chance.next() % 7], CommId{i % 3}));
        messages.back()->send.priority = static_cast<int>(chance.next() % 3);
        posts.emplace_back(true, messages.back().get());
        posts.emplace_back(false, messages.back().get());
      }
      for (std::size_t i = posts.size(); i > 1; --i) {
        std::swap(posts[i - 1], posts[chance.next() % i]);
      }
      for (const auto& [is_send, m] : posts) {
        if (is_send) pair.a->session().post(m->send);
        if (!is_send) pair.b->session().post(m->recv);
        if (chance.next() % 4 == 0) testing::pump(*pair.a);
        if (chance.next() % 4 == 0) testing::pump(*pair.b);
        REQUIRE(pair.b->session().early_bytes() <= kLow.bytes);
      }
      settle(pair);
      for (const auto& m : messages) m->check();
      check_links(pair);
    }
    check_credit(pair, kLow);
  }
}

TEST_CASE("a key table holds what a map does") {
  Chance chance(1);
  KeyTable<int> table;
  std::map<std::uint32_t, int> map;
  const auto key_of = [](std::uint32_t n) { return MessageKey{{n % 2}, {n % 3}, n % 7, n}; };
  for (int i = 0; i < 20'000; ++i) {
    const std::uint32_t n = chance.next() % (i < 10'000 ? 300 : 20);
    const auto found = map.find(n);
    REQUIRE((table.find(key_of(n)) != nullptr) == (found != map.end()));
    if (chance.next() % 2 == 0) {
      table.put(key_of(n), i);
      map[n] = i;
    } else {
      CHECK(table.take(key_of(n)).value_or(-1) == (found == map.end() ? -1 : found->second));
      map.erase(n);
    }
    if (i % 1000 == 0) {
      table.erase_if([](const MessageKey& key, int) { return key.op == 3; });
      std::erase_if(map, [](const auto& entry) { return entry.first % 7 == 3; });
    }
    REQUIRE(table.size() == map.size());
  }
}

// Frames of one session, given to the other.
std::map<FrameKind, int> carry(Session& from, Session& to) {
  std::map<FrameKind, int> frames;
  OutFrame frame;
  while (from.next_frame(kMaxFramePayload, frame)) {
    ++frames[frame.header.kind];
    REQUIRE(to.begin_frame(frame.header).is_ok());
    std::span<const std::byte> rest = frame.payload;
    while (!rest.empty()) rest = rest.subspan(to.payload(rest));
    from.sent(frame);
    frame = {};
  }
  return frames;
}

TEST_CASE("messages that come and go cost a frame of credit now and then, and no other") {
  Session a;
  Session b;
  int credits = 0;
  constexpr int kCount = 5000;
  for (int i = 0; i < kCount; ++i) {
    Message m(static_cast<std::uint32_t>(i), kEagerBytes);
    if (i % 2 == 0) b.post(m.recv);
    a.post(m.send);
    CHECK(carry(a, b) == std::map<FrameKind, int>{{FrameKind::kEager, 1}});
    if (i % 2 == 1) b.post(m.recv);
    m.check();
    auto back = carry(b, a);
    credits += std::exchange(back[FrameKind::kCredit], 0);
    CHECK(back.size() == 1);
  }
  const auto lump = EarlyLimits().bytes / 4;
  CHECK(credits == static_cast<int>(kCount * early_cost(kEagerBytes) / lump));
}

TEST_CASE("a peer that minds no credit is broken, and one that floods notices is not remembered") {
  FrameHeader eager{FrameKind::kEager, 1000, {}, 0, 0, 1000};
  Session session;
  session.limit_early(kLow);
  const Bytes bytes(1000);
  std::size_t taken = 0;
  for (;; ++taken) {
    eager.key.op = static_cast<std::uint32_t>(taken);
    if (!session.begin_frame(eager).is_ok()) break;
    session.payload(bytes);
  }
  CHECK(taken == kLow.bytes / early_cost(1000));
  CHECK(session.early_bytes() <= kLow.bytes);

  Session other;
  CHECK_FALSE(other.begin_frame({FrameKind::kCredit, 0, {}, 0, 0, 1}).is_ok());

  // Nor can asks and looks make answers pile up.
  Session third;
  third.limit_early(kLow);
  Message large(1, 100'000);
  Message small(2, 100);
  for (Message* m : {&large, &small}) third.post(m->recv);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    for (const FrameKind kind : {FrameKind::kAsk, FrameKind::kAnnounce, FrameKind::kLook,
                                 FrameKind::kGrant, FrameKind::kAnswer}) {
      REQUIRE(third.begin_frame({kind, 0, {{1}, {}, i, 0}, 0, 0, 100}).is_ok());
    }
    REQUIRE(third.begin_frame({FrameKind::kAsk, 0, {{}, {}, 1, 0}, 0, 0, 100'000}).is_ok());
    REQUIRE(third.begin_frame({FrameKind::kAsk, 0, {{}, {}, 2, 0}, 0, 0, 100}).is_ok());
  }
  std::size_t said = 0;
  for (OutFrame out; third.next_frame(kMaxFramePayload, out); out = {}) ++said;
  CHECK(said == 3);
  for (Message* m : {&large, &small}) third.cancel(m->recv);
}

}  // namespace
}  // namespace holdfast::comm
