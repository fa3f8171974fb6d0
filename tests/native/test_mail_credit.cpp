// What a mailbox keeps of messages that nobody has asked for: it stays within the credit, and
// nothing is lost or comes in another order.
#include "mail_calls.h"

namespace holdfast::testing {
namespace {

using namespace comm;

constexpr int kMany = 100'000;

// Sends so many messages of the same tag, whose first bytes say which they are.
struct Flood {
  Flood(MailDesks& desks, int count, std::size_t bytes)
      : payloads(static_cast<std::size_t>(count)) {
    requests = std::vector<MailRequest>(payloads.size());
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      payloads[i].resize(bytes);
      std::memcpy(payloads[i].data(), &i, sizeof i);
      desks.core(0).send(requests[i],
                         {kTalk, {1}, 5, SendMode::kStandard, {payloads[i].data(), bytes}});
      desks.post(0);
    }
  }
  std::size_t done() const {
    return static_cast<std::size_t>(std::count_if(
        requests.begin(), requests.end(), [](const MailRequest& r) { return r.is_done(); }));
  }
  std::vector<std::vector<std::byte>> payloads;
  std::vector<MailRequest> requests;
};

void receive_all(MailDesks& desks, int count, std::size_t bytes) {
  std::vector<std::byte> room(bytes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    MailRequest request;
    desks.core(1).receive(request, {kTalk}, {room.data(), bytes});
    desks.post(1);
    if (!request.is_done()) REQUIRE(desks.settle());
    REQUIRE(request.result.outcome == MailOutcome::kOk);
    REQUIRE(request.result.bytes == bytes);
    std::size_t which = 0;
    std::memcpy(&which, room.data(), sizeof which);
    REQUIRE(which == i);
  }
}

}  // namespace

TEST_CASE("a hundred thousand small messages are kept within the credit, and come in order") {
  for (const bool one_host : {false, true}) {
    Talk talk({2, {}, one_host});
    const Flood flood(talk.desks, kMany, 64);
    REQUIRE(talk.desks.settle());
    CHECK(flood.done() == kMany);
    CHECK(talk.desks.core(1).backlog().messages == kMany);
    CHECK(kMany * (64 + kMailOverhead) <= MailLimits{}.bytes);
    receive_all(talk.desks, kMany, 64);
    CHECK(talk.desks.core(1).backlog().messages == 0);
  }
}

TEST_CASE("beyond the credit, messages wait at their sender, and come in order") {
  for (const bool one_host : {false, true}) {
    Talk talk({2, {}, one_host});
    const Flood flood(talk.desks, kMany, 1000);
    REQUIRE(talk.desks.settle());
    const auto backlog = talk.desks.core(1).backlog();
    CHECK(backlog.messages == kMany);
    CHECK(flood.done() * (1000 + kMailOverhead) <= MailLimits{}.bytes);
    CHECK(backlog.bytes == flood.done() * 1000);
    receive_all(talk.desks, kMany, 1000);
    REQUIRE(talk.desks.settle());
    CHECK(flood.done() == kMany);
  }
}

TEST_CASE("beyond the most messages that are kept or announced, they wait, and come in order") {
  for (const bool one_host : {false, true}) {
    Talk talk({2, {1 << 20, 100, 16}, one_host});
    const Flood flood(talk.desks, 1000, 48);
    REQUIRE(talk.desks.settle());
    CHECK(talk.desks.core(1).backlog().messages == 100);
    receive_all(talk.desks, 1000, 48);
    REQUIRE(talk.desks.settle());
    CHECK(flood.done() == 1000);
  }
}

TEST_CASE("a rank's messages to itself are copied within the credit, and wait beyond it") {
  Talk talk({2, {10'000, 100, 1000}});
  std::vector<std::shared_ptr<OneSend>> sent;
  for (int i = 0; i < 50; ++i) sent.push_back(send(talk.desks, {.to = 0, .tag = i, .bytes = 500}));
  std::uint64_t done = 0;
  for (const auto& s : sent) done += s->request.is_done() ? 1U : 0U;
  CHECK(done == 10'000 / (500 + kMailOverhead));
  CHECK(talk.desks.core(0).backlog().bytes == done * 500);
  for (int i = 0; i < 50; ++i) {
    const auto taken = receive(talk.desks, {.at = 0, .room = 500});
    CHECK(taken->request.result.tag == i);
    CHECK(holds(*taken, *sent[static_cast<std::size_t>(i)], 500));
    CHECK(sent[static_cast<std::size_t>(i)]->request.is_done());
  }
  CHECK(send(talk.desks, {.to = 0, .bytes = 500})->request.is_done());
}

TEST_CASE("messages that a closing context drops give their credit back") {
  Talk talk({2, {10'000, 20, 1000}});
  for (std::uint32_t round = 0; round < 20; ++round) {
    const ContextId context{100 + round};
    talk.desks.open(context);
    std::vector<MailRequest> requests(20);
    for (MailRequest& r : requests) {
      talk.desks.core(0).send(r, {context, {1}, 0, SendMode::kStandard, {}});
    }
    talk.desks.post(0);
    REQUIRE(talk.desks.settle());
    CHECK(talk.desks.core(1).backlog().messages == 20);
    talk.desks.core(1).close(context);
    REQUIRE(talk.desks.settle());
    CHECK(talk.desks.core(1).backlog().messages == 0);
  }
}

}  // namespace holdfast::testing
