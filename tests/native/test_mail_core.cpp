// Single messages between mailboxes without I/O: eager and announced ones, truncation, synchronous
// sends, cancels, messages of a rank to itself, and calls that cannot be.
#include "mail_calls.h"

namespace holdfast::testing {
namespace {

using namespace comm;

// Beyond what goes without being asked for.
constexpr std::size_t kLarge = 100'000;

// Over a link, and over shared memory.
const std::vector<bool> kBothWays{false, true};

}  // namespace

TEST_CASE("a small message goes at once, whether its receive is posted before or after it") {
  for (const bool one_host : kBothWays) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{16 * 1024}}) {
      Talk talk({2, {}, one_host});
      const auto early = receive(talk.desks, {.tag = 1});
      const auto sent = send(talk.desks, {.tag = 1, .bytes = bytes});
      const auto later = send(talk.desks, {.tag = 2, .bytes = bytes});
      CHECK(sent->request.is_done());
      CHECK(later->request.is_done());
      REQUIRE(talk.desks.settle());
      CHECK(holds(*early, *sent, bytes));
      CHECK(talk.desks.core(1).backlog().messages == 1);
      CHECK(talk.desks.core(1).backlog().bytes == bytes);
      const auto late = receive(talk.desks, {.tag = 2});
      CHECK(holds(*late, *later, bytes));
      CHECK(talk.desks.core(1).backlog().messages == 0);
    }
  }
}

TEST_CASE("a large message stays at its sender until a receive has taken it") {
  for (const bool one_host : kBothWays) {
    Talk talk({2, {}, one_host});
    const auto sent = send(talk.desks, {.tag = 3, .bytes = kLarge});
    REQUIRE(talk.desks.settle());
    CHECK(!sent->request.is_done());
    CHECK(talk.desks.core(1).backlog().messages == 1);
    CHECK(talk.desks.core(1).backlog().bytes == 0);
    const auto taken = receive(talk.desks, {});
    REQUIRE(talk.desks.settle());
    CHECK(holds(*taken, *sent, kLarge));
    CHECK(taken->request.result.source == Rank{0});
    CHECK(taken->request.result.tag == 3);
    CHECK(sent->request.result.outcome == MailOutcome::kOk);
    CHECK(sent->request.result.bytes == kLarge);
  }
}

TEST_CASE("a message larger than its room is truncated, consumed, and its send is whole") {
  for (const bool one_host : kBothWays) {
    for (const std::size_t bytes : {std::size_t{1000}, kLarge}) {
      for (const std::size_t room : {std::size_t{0}, std::size_t{999}}) {
        for (const int to : {0, 1}) {
          Talk talk({2, {}, one_host});
          const auto sent = send(talk.desks, {.to = to, .bytes = bytes});
          const auto taken = receive(talk.desks, {.at = to, .room = room});
          REQUIRE(talk.desks.settle());
          CHECK(holds(*taken, *sent, room));
          const MailResult& result = taken->request.result;
          CHECK(result.outcome == MailOutcome::kTruncated);
          CHECK(result.status.code() == Code::kConfigError);
          CHECK(result.status.message() ==
                "receive: the message from rank 0 with tag 0 has " + std::to_string(bytes) +
                    " bytes, and there is room for " + std::to_string(room));
          CHECK(sent->request.result.outcome == MailOutcome::kOk);
          CHECK(sent->request.result.bytes == bytes);
          CHECK(talk.desks.core(to).backlog().messages == 0);
        }
      }
    }
  }
}

TEST_CASE("a synchronous send is done when its message has been matched, and no sooner") {
  for (const bool one_host : kBothWays) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, kLarge}) {
      for (const int to : {0, 1}) {
        Talk talk({2, {}, one_host});
        const auto sent =
            send(talk.desks, {.to = to, .bytes = bytes, .mode = SendMode::kSynchronous});
        REQUIRE(talk.desks.settle());
        CHECK(!sent->request.is_done());
        const auto probed = talk.desks.core(to).probe({kTalk}, true);
        REQUIRE(probed.is_ok());
        REQUIRE(probed.value() != nullptr);
        REQUIRE(talk.desks.settle());
        OneReceive taken;
        taken.room.resize(bytes);
        talk.desks.core(to).receive_matched(taken.request, *probed.value(),
                                            {taken.room.data(), bytes});
        talk.desks.post(to);
        REQUIRE(talk.desks.settle());
        CHECK(holds(taken, *sent, bytes));
        CHECK(sent->request.result.outcome == MailOutcome::kOk);
      }
    }
  }
}

TEST_CASE("a receive is cancelled while it waits, and not once it has a message") {
  Talk talk({2});
  const auto waits = receive(talk.desks, {.tag = 1});
  CHECK(talk.desks.core(1).cancel(waits->request));
  CHECK(waits->request.result.outcome == MailOutcome::kCancelled);
  const auto sent = send(talk.desks, {.tag = 1, .bytes = kLarge});
  const auto has = receive(talk.desks, {.tag = 1});
  REQUIRE(talk.desks.deliver(0, 1));
  CHECK(!has->request.is_done());
  CHECK(!talk.desks.core(1).cancel(has->request));
  REQUIRE(talk.desks.settle());
  CHECK(holds(*has, *sent, kLarge));
  CHECK(!talk.desks.core(1).cancel(has->request));
}

TEST_CASE("a send is cancelled while it has not left, and the other messages keep their order") {
  MailDesks desks({2});
  desks.open(kTalk);
  desks.greet();  // until the other end has answered, everything waits
  std::vector<std::shared_ptr<OneSend>> sent;
  for (int tag = 0; tag < 4; ++tag) sent.push_back(send(desks, {.tag = tag}));
  CHECK(desks.core(0).cancel(sent[1]->request));
  CHECK(sent[1]->request.result.outcome == MailOutcome::kCancelled);
  REQUIRE(desks.settle());
  for (const int tag : {0, 2, 3}) {
    CHECK(sent[static_cast<std::size_t>(tag)]->request.is_done());
    CHECK(receive(desks, {})->request.result.tag == tag);
  }
  const auto announced = send(desks, {.tag = 5, .bytes = kLarge});
  CHECK(!desks.core(0).cancel(announced->request));
  const auto taken = receive(desks, {});
  REQUIRE(desks.settle());
  CHECK(holds(*taken, *announced, kLarge));
}

TEST_CASE("a send to this rank itself is cancelled until a probe or a receive has taken it") {
  Talk talk({2});
  const SendSpec spec{.to = 0, .mode = SendMode::kSynchronous};
  const auto first = send(talk.desks, spec);
  CHECK(talk.desks.core(0).cancel(first->request));
  CHECK(talk.desks.core(0).backlog().messages == 0);
  const auto second = send(talk.desks, spec);
  const auto probed = talk.desks.core(0).probe({kTalk}, true);
  REQUIRE(probed.is_ok());
  REQUIRE(probed.value() != nullptr);
  CHECK(!talk.desks.core(0).cancel(second->request));
  OneReceive taken;
  taken.room.resize(8);
  talk.desks.core(0).receive_matched(taken.request, *probed.value(), {taken.room.data(), 8});
  CHECK(holds(taken, *second, 8));
  CHECK(second->request.result.outcome == MailOutcome::kOk);
}

TEST_CASE("packed payloads and rooms meet in every way, also within one rank") {
  for (const bool one_host : kBothWays) {
    for (const int to : {0, 1}) {
      for (const std::size_t bytes : {std::size_t{700}, kLarge}) {
        Talk talk({2, {}, one_host});
        const auto what = pattern_bytes(9, bytes);
        BytesSource source(what);
        BytesSink sink(bytes - 10);
        MailRequest send;
        MailRequest receive;
        talk.desks.core(0).send(send,
                                {kTalk, {to}, 4, SendMode::kSynchronous, {nullptr, 0, &source}});
        talk.desks.post(0);
        talk.desks.core(to).receive(receive, {kTalk}, {nullptr, 0, &sink});
        talk.desks.post(to);
        REQUIRE(talk.desks.settle());
        CHECK(send.result.outcome == MailOutcome::kOk);
        CHECK(receive.result.outcome == MailOutcome::kTruncated);
        REQUIRE(sink.taken.size() == bytes - 10);
        CHECK(std::equal(sink.taken.begin(), sink.taken.end(), what.begin()));
      }
    }
  }
}

TEST_CASE("a context that closes ends its receives, drops its messages and lets their senders go") {
  Talk talk({2});
  talk.desks.open({8});
  const auto posted = receive(talk.desks, {.tag = 99});
  const auto small = send(talk.desks, {.tag = 1, .mode = SendMode::kSynchronous});
  const auto large = send(talk.desks, {.tag = 2, .bytes = kLarge});
  const auto own = send(talk.desks, {.from = 1, .tag = 3, .mode = SendMode::kSynchronous});
  const auto other = talk.desks.make<MailRequest>();
  talk.desks.core(0).send(*other, {{8}, {1}, 4, SendMode::kSynchronous, {}});
  talk.desks.post(0);
  REQUIRE(talk.desks.settle());
  talk.desks.core(1).close(kTalk);
  REQUIRE(talk.desks.settle());
  CHECK(posted->request.result.outcome == MailOutcome::kCancelled);
  for (const auto* sent : {&small, &large, &own}) {
    CHECK((*sent)->request.is_done());
    CHECK((*sent)->request.result.outcome == MailOutcome::kOk);
  }
  CHECK(!other->is_done());
  CHECK(talk.desks.core(1).backlog().messages == 1);
  CHECK(receive(talk.desks, {})->request.result.status.message() ==
        "receive: context 7 is not open");
}

TEST_CASE("calls that cannot be end at once and say why") {
  Talk talk({3});
  MailCore& core = talk.desks.core(0);
  const std::vector<Rank> two{{0}, {1}};
  REQUIRE(core.open({8}, two).is_ok());
  const std::vector<Rank> far{{0}, {3}};
  CHECK(core.open({9}, far).message() == "mailbox: context 9 with member 3; accepted: 0 to 2");
  CHECK(core.open({8}, two).message() == "mailbox: context 8 is open already");
  const auto send_error = [&](const MailSend& message) {
    MailRequest request;
    core.send(request, message);
    CHECK(request.result.outcome == MailOutcome::kFailed);
    CHECK(request.result.status.code() == Code::kConfigError);
    return request.result.status.message();
  };
  CHECK(send_error({{9}, {1}, 0, SendMode::kStandard, {}}) == "send: context 9 is not open");
  CHECK(send_error({{8}, {2}, 0, SendMode::kStandard, {}}) ==
        "send: rank 2 is no member of context 8");
  CHECK(send_error({{8}, {-5}, 0, SendMode::kStandard, {}}) ==
        "send: rank -5 is no member of context 8");
  CHECK(send_error({{8}, {1}, -2, SendMode::kStandard, {}}) == "send: tag -2; accepted: 0 or more");
  const MailPayload endless{nullptr, kMaxMessageBytes + 1, nullptr};
  CHECK(send_error({{8}, {1}, 0, SendMode::kStandard, endless}) ==
        "send: " + std::to_string(kMaxMessageBytes + 1) + " bytes; accepted: at most " +
            std::to_string(kMaxMessageBytes));
  const auto receive_error = [&](const MailPattern& pattern) {
    MailRequest request;
    core.receive(request, pattern, {});
    CHECK(request.result.outcome == MailOutcome::kFailed);
    CHECK(core.probe(pattern, false).status().message() == request.result.status.message());
    return request.result.status.message();
  };
  CHECK(receive_error({{9}}) == "receive: context 9 is not open");
  CHECK(receive_error({{8}, {2}}) == "receive: rank 2 is no member of context 8");
  CHECK(receive_error({{8}, {1}, -7}) == "receive: tag -7; accepted: 0 or more, or any (-1)");
}

}  // namespace holdfast::testing
