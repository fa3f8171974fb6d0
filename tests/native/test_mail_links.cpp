// How mail reaches another rank: over links that break and are made anew, through rings that are
// there or not, and by reading the sender's memory, as far as the system lets it.
#include "mail_calls.h"

namespace holdfast::testing {
namespace {

using namespace comm;

constexpr std::size_t kLarge = 300'000;

// Messages of all kinds in both directions, some of them under way when something happens.
struct Exchange {
  Exchange(MailDesks& all, int count) : desks(all) {
    for (int from = 0; from < 2; ++from) {
      for (int i = 0; i < count; ++i) {
        const std::size_t bytes = i % 5 == 4 ? kLarge : static_cast<std::size_t>(i) * 10;
        const SendMode mode = i % 3 == 0 ? SendMode::kSynchronous : SendMode::kStandard;
        sent.push_back(send(desks, {from, 1 - from, i, bytes, mode}));
        taken.push_back(receive(desks, {.at = 1 - from, .source = {from}, .room = kLarge}));
      }
    }
  }
  void check_all() const {
    for (std::size_t i = 0; i < sent.size(); ++i) {
      REQUIRE(sent[i]->request.is_done());
      REQUIRE(sent[i]->request.result.outcome == MailOutcome::kOk);
      REQUIRE(holds(*taken[i], *sent[i], sent[i]->bytes.size()));
    }
  }
  MailDesks& desks;
  std::vector<std::shared_ptr<OneSend>> sent;
  std::vector<std::shared_ptr<OneReceive>> taken;
};

}  // namespace

TEST_CASE("a link that breaks at any frame loses nothing, and nothing comes twice") {
  for (int before = 0; before < 40; ++before) {
    CAPTURE(before);
    MailDesks desks({2});
    desks.open(kTalk);
    desks.greet();
    const Exchange exchange(desks, 10);
    for (int i = 0; i < before; ++i) desks.deliver(i % 2, 1 - i % 2);
    desks.cut(0, 1);
    // One end goes on over the new connection while the other knows of none yet.
    desks.relink(0, 1);
    for (int i = 0; i < 3; ++i) desks.deliver(0, 1);
    desks.relink(1, 0);
    REQUIRE(desks.settle());
    exchange.check_all();
  }
}

TEST_CASE("a link that breaks again and again still carries everything") {
  MailDesks desks({2});
  desks.open(kTalk);
  desks.greet();
  const Exchange exchange(desks, 20);
  for (int round = 0; round < 100; ++round) {
    // A frame more arrives each time before the next break.
    for (int i = 0; i <= round; ++i) desks.deliver(round % 2, 1 - round % 2);
    desks.cut(0, 1);
    desks.relink(1, 0);
    desks.relink(0, 1);
  }
  REQUIRE(desks.settle());
  exchange.check_all();
}

TEST_CASE("while there is no link, what is kept for it is bounded, and the rest waits") {
  Talk talk({2});
  talk.desks.cut(0, 1);
  std::vector<std::shared_ptr<OneSend>> sent;
  for (int i = 0; i < 1000; ++i) sent.push_back(send(talk.desks, {.tag = i, .bytes = 10'000}));
  std::size_t gone = 0;
  for (const auto& one : sent) gone += one->request.is_done() ? 1U : 0U;
  CHECK(gone > 0);
  CHECK(gone * 10'000 <= kTrunkBytes);
  talk.desks.relink(1, 0);
  talk.desks.relink(0, 1);
  std::size_t kept = 0;
  for (const auto& frame : talk.desks.pipe(0, 1)) kept += frame.size();
  CHECK(kept <= kTrunkBytes);
  REQUIRE(talk.desks.settle());
  for (int i = 0; i < 1000; ++i) {
    const auto taken = receive(talk.desks, {.room = 10'000});
    REQUIRE(holds(*taken, *sent[static_cast<std::size_t>(i)], 10'000));
  }
}

TEST_CASE("ranks of a host use rings once both have them, and leave no name behind") {
  Talk talk({3, {}, true});
  CHECK(talk.desks.host.segments.empty());
  for (int rank = 0; rank < 3; ++rank) CHECK(talk.desks.ways(rank).all_ringed());
  const auto sent = send(talk.desks, {.bytes = 8});
  CHECK(talk.desks.pipe(0, 1).empty());
  REQUIRE(talk.desks.progress(1));
  CHECK(holds(*receive(talk.desks, {}), *sent, 8));
}

TEST_CASE("a link that breaks while ranks change over to rings loses nothing") {
  for (int before = 0; before < 20; ++before) {
    CAPTURE(before);
    MailDesks desks({2, {}, true});
    desks.open(kTalk);
    desks.greet();
    const Exchange exchange(desks, 10);
    for (int i = 0; i < before; ++i) {
      desks.deliver(i % 2, 1 - i % 2);
      desks.progress(i % 2);
    }
    desks.cut(0, 1);
    desks.progress(0);
    desks.progress(1);
    desks.relink(1, 0);
    desks.relink(0, 1);
    REQUIRE(desks.settle());
    exchange.check_all();
    CHECK(desks.ways(0).all_ringed());
    CHECK(desks.ways(1).all_ringed());
  }
}

TEST_CASE("where the system refuses memory, or stops to, messages take the other ways") {
  for (int allowed = 0; allowed < 8; ++allowed) {
    for (const int reads : {0, 1, 3, 1000}) {
      CAPTURE(allowed);
      CAPTURE(reads);
      MailDesks desks({2, {}, true});
      desks.host.may_make = (allowed & 1) != 0;
      desks.host.may_open = (allowed & 2) != 0;
      desks.host.may_reach = (allowed & 4) != 0;
      desks.host.reads = reads;
      desks.open(kTalk);
      desks.greet();
      const Exchange exchange(desks, 20);
      REQUIRE(desks.settle());
      exchange.check_all();
      CHECK(desks.ways(0).all_ringed() == ((allowed & 3) == 3));
      CHECK(desks.host.segments.empty());
    }
  }
}

// A read of a large message is cut off in its middle: the rest is asked for.
TEST_CASE("a payload that can be read no more comes on from where the reader was") {
  constexpr std::size_t kHuge = 5 << 20;
  MailDesks desks({2, {}, true});
  desks.open(kTalk);
  desks.greet();
  REQUIRE(desks.settle());
  desks.host.reads = 2;  // of a megabyte each
  const auto sent = send(desks, {.bytes = kHuge});
  const auto taken = receive(desks, {.room = kHuge});
  REQUIRE(desks.settle());
  CHECK(desks.host.reads < 0);
  CHECK(holds(*taken, *sent, kHuge));
  CHECK(sent->request.result.bytes == kHuge);
}

TEST_CASE("a payload is read where it lies, or asked for from a sender that waits anyway") {
  constexpr std::size_t kHuge = 5 << 20;
  for (const int begins : {-1, 0, 2}) {  // never, at first, after so many reads
    CAPTURE(begins);
    Talk talk({2, {}, true});
    if (begins == 0) talk.desks.ways(0).attend({1}, true);
    const int before = talk.desks.host.reads;
    const auto sent = send(talk.desks, {.bytes = kHuge});
    REQUIRE(talk.desks.progress(1));
    const auto taken = receive(talk.desks, {.room = kHuge});
    if (begins == 2) {
      talk.desks.progress(1);
      talk.desks.ways(0).attend({1}, true);
    }
    REQUIRE(talk.desks.settle());
    CHECK(before - talk.desks.host.reads == (begins < 0 ? 5 : begins));
    CHECK(holds(*taken, *sent, kHuge));
    CHECK(sent->request.result.bytes == kHuge);
    talk.desks.ways(0).attend({1}, false);
  }
}

TEST_CASE("a sender attends while any of its threads does, and no longer") {
  Talk talk({2, {}, true});
  const auto reads = [&] {
    const int before = talk.desks.host.reads;
    const auto sent = send(talk.desks, {.bytes = kLarge});
    const auto taken = receive(talk.desks, {.room = kLarge});
    REQUIRE(talk.desks.settle());
    CHECK(holds(*taken, *sent, kLarge));
    return before - talk.desks.host.reads;
  };
  CHECK(reads() == 1);
  talk.desks.ways(0).attend({1}, true);
  talk.desks.ways(0).attend({1}, true);
  talk.desks.ways(0).attend({1}, false);
  CHECK(reads() == 0);
  talk.desks.ways(0).attend({1}, false);
  CHECK(reads() == 1);
  talk.desks.ways(0).attend({1}, false);  // of a ring that was there before
  CHECK(reads() == 1);
}

TEST_CASE("a rank that waits for its sockets is sent a frame when its ring was written to") {
  Talk talk({2, {}, true});
  talk.desks.bell(1).sleeping = static_cast<std::uint32_t>(Sleep::kOnSocket);
  const auto sent = send(talk.desks, {});
  CHECK(talk.desks.pipe(0, 1).size() == 1);
  REQUIRE(talk.desks.settle());
  CHECK(holds(*receive(talk.desks, {}), *sent, 8));
}

}  // namespace holdfast::testing
