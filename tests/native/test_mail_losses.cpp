// What becomes of messages between mailboxes without I/O when ranks die, leave and come back, and
// when the world ends.
#include <random>

#include "mail_calls.h"

namespace holdfast::testing {
namespace {

using namespace comm;

constexpr std::size_t kLarge = 100'000;
const Status kDied{Code::kPeerLost, "it died"};
const Status kLeft{Code::kPeerLost, "it left"};

bool is_lost(const MailRequest& request, int rank) {
  return request.is_done() && request.result.outcome == MailOutcome::kFailed &&
         request.result.status.code() == Code::kPeerLost &&
         request.result.status.ranks() == std::vector<Rank>{{rank}};
}

void lose(MailDesks& desks, int at, int rank, bool died) {
  desks.ways(at).on_gone({rank}, died, died ? kDied : kLeft);
  desks.post(at);
}

// Both of them meet anew.
void come_back(MailDesks& desks, int rank) {
  for (int at = 0; at < desks.size(); ++at) {
    if (at != rank) desks.ways(at).seat({rank}, std::nullopt);
    if (at != rank) desks.post(at);
  }
}

}  // namespace

TEST_CASE("a rank that dies ends what needs it, and leaves what is here in full") {
  for (const bool one_host : {false, true}) {
    Talk talk({3, {}, one_host});
    const auto whole = send(talk.desks, {.from = 2, .to = 0, .tag = 1});
    const auto announced = send(talk.desks, {.from = 2, .to = 0, .tag = 2, .bytes = kLarge});
    const auto other = receive(talk.desks, {.at = 0, .source = {1}, .tag = 4});
    REQUIRE(talk.desks.settle());
    const auto to_it = send(talk.desks, {.from = 0, .to = 2, .bytes = kLarge});
    const auto from_it = receive(talk.desks, {.at = 0, .source = {2}, .tag = 5});
    const auto from_any = receive(talk.desks, {.at = 0, .tag = 6});
    lose(talk.desks, 0, 2, true);
    CHECK(is_lost(to_it->request, 2));
    CHECK(is_lost(from_it->request, 2));
    CHECK(is_lost(from_any->request, 2));
    CHECK(!other->request.is_done());
    CHECK(holds(*receive(talk.desks, {.at = 0, .source = {2}, .tag = 1}), *whole, 8));
    CHECK(is_lost(receive(talk.desks, {.at = 0, .source = {2}, .tag = 2})->request, 2));
    CHECK(is_lost(send(talk.desks, {.from = 0, .to = 2})->request, 2));
    CHECK(talk.desks.core(0).probe({kTalk}, false).status().code() == Code::kPeerLost);
    const auto goes_on = send(talk.desks, {.from = 1, .to = 0, .tag = 4});
    REQUIRE(talk.desks.settle());
    CHECK(holds(*other, *goes_on, 8));
  }
}

TEST_CASE("what a dying rank wrote into its ring is received though nobody had looked") {
  Talk talk({2, {}, true});
  std::vector<std::shared_ptr<OneSend>> sent;
  for (int tag = 0; tag < 200; ++tag) sent.push_back(send(talk.desks, {.tag = tag}));
  lose(talk.desks, 1, 0, true);
  for (int tag = 0; tag < 200; ++tag) {
    const auto taken = receive(talk.desks, {.source = {0}});
    REQUIRE(holds(*taken, *sent[static_cast<std::size_t>(tag)], 8));
  }
  CHECK(is_lost(receive(talk.desks, {.source = {0}})->request, 0));
}

TEST_CASE("a message under way when its sender dies fails its receive, also one that was probed") {
  Talk talk({2});
  const auto first = send(talk.desks, {.tag = 1, .bytes = kLarge});
  const auto second = send(talk.desks, {.tag = 2, .bytes = kLarge});
  REQUIRE(talk.desks.settle());
  const auto half = receive(talk.desks, {.tag = 1});  // it has asked for the payload
  const auto probed = talk.desks.core(1).probe({kTalk, {0}, 2}, true);
  REQUIRE(probed.value() != nullptr);
  lose(talk.desks, 1, 0, true);
  CHECK(is_lost(half->request, 0));
  OneReceive taken;
  talk.desks.core(1).receive_matched(taken.request, *probed.value(), {});
  CHECK(is_lost(taken.request, 0));
}

TEST_CASE("a rank that said goodbye ends only what names it, until it was the last") {
  Talk talk({3});
  const auto from_any = receive(talk.desks, {.at = 0});
  const auto from_it = receive(talk.desks, {.at = 0, .source = {2}, .tag = 5});
  lose(talk.desks, 0, 2, false);
  CHECK(is_lost(from_it->request, 2));
  CHECK(!from_any->request.is_done());
  lose(talk.desks, 0, 1, false);
  CHECK(from_any->request.result.status.message() ==
        "receive: all other members of context 7 have left");
  // A context of this rank alone needs nobody.
  const std::vector<Rank> alone{{0}};
  REQUIRE(talk.desks.core(0).open({8}, alone).is_ok());
  MailRequest own;
  talk.desks.core(0).receive(own, {{8}}, {});
  CHECK(!own.is_done());
  CHECK(talk.desks.core(0).cancel(own));
}

TEST_CASE("a context that is opened later knows of those who died before") {
  Talk talk({3});
  lose(talk.desks, 0, 2, true);
  const std::vector<Rank> with{{0}, {1}, {2}};
  const std::vector<Rank> without{{0}, {1}};
  REQUIRE(talk.desks.core(0).open({8}, with).is_ok());
  REQUIRE(talk.desks.core(0).open({9}, without).is_ok());
  MailRequest one;
  MailRequest other;
  talk.desks.core(0).receive(one, {{8}}, {});
  talk.desks.core(0).receive(other, {{9}}, {});
  CHECK(is_lost(one, 2));
  CHECK(!other.is_done());
  CHECK(talk.desks.core(0).cancel(other));
}

TEST_CASE("of two ranks that died, the one that is not back still ends receives from any source") {
  Talk talk({3});
  lose(talk.desks, 0, 1, true);
  lose(talk.desks, 0, 2, true);
  talk.desks.ways(0).seat({1}, std::nullopt);
  CHECK(is_lost(receive(talk.desks, {.at = 0})->request, 2));
  talk.desks.ways(0).seat({2}, std::nullopt);
  const auto waits = receive(talk.desks, {.at = 0});
  CHECK(!waits->request.is_done());
  CHECK(talk.desks.core(0).cancel(waits->request));
}

TEST_CASE("a new member of a rank starts anew, with full credit and its own numbers") {
  for (int round = 0; round < 3; ++round) {
    MailDesks desks({2, {10'000, 8, 1000}});
    desks.open(kTalk);
    desks.greet();
    REQUIRE(desks.settle());
    std::vector<std::shared_ptr<OneSend>> before;
    for (int i = 0; i < 20; ++i) before.push_back(send(desks, {.tag = i}));
    REQUIRE(desks.settle());
    desks.cut(0, 1);
    lose(desks, 1, 0, true);
    lose(desks, 0, 1, true);
    for (const auto& one : before) CHECK(one->request.is_done());
    desks.relink(0, 1);
    desks.relink(1, 0);
    come_back(desks, 0);
    come_back(desks, 1);
    REQUIRE(desks.settle());
    // The eight that had come are still there, and count for nobody.
    CHECK(desks.core(1).backlog().messages == 8);
    const auto after = send(desks, {.tag = 99, .mode = SendMode::kSynchronous});
    const auto taken = receive(desks, {.tag = 99});
    REQUIRE(desks.settle());
    CHECK(holds(*taken, *after, 8));
    CHECK(after->request.result.outcome == MailOutcome::kOk);
  }
}

TEST_CASE("when the world ends, everything ends with its status, and nothing begins") {
  for (const bool one_host : {false, true}) {
    Talk talk({2, {}, one_host});
    const Status ended{Code::kAborted, "the user aborted"};
    std::vector<const MailRequest*> requests;
    const auto posted = receive(talk.desks, {.at = 0, .tag = 50});
    const auto large = send(talk.desks, {.tag = 1, .bytes = kLarge});
    const auto synchronous = send(talk.desks, {.tag = 2, .mode = SendMode::kSynchronous});
    const auto own = send(talk.desks, {.to = 0, .tag = 3, .bytes = kLarge});
    REQUIRE(talk.desks.settle());
    talk.desks.ways(0).end(ended);
    const auto later = send(talk.desks, {.tag = 4});
    const auto later_receive = receive(talk.desks, {.at = 0, .tag = 51});
    for (const MailRequest* request : {&posted->request, &large->request, &synchronous->request,
                                       &own->request, &later->request, &later_receive->request}) {
      CHECK(request->is_done());
      CHECK(request->result.outcome == MailOutcome::kFailed);
      CHECK(request->result.status.message() == "the user aborted");
    }
  }
}

// Ranks die and leave at any moment; what they had under way ends at all survivors.
TEST_CASE("after random losses no request of a survivor hangs") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    Talk talk({4, {4096, 6, 500}, seed % 2 == 0});
    std::vector<std::shared_ptr<OneSend>> sent;
    std::vector<std::shared_ptr<OneReceive>> taken;
    for (int step = 0; step < 200; ++step) {
      const int a = below(4);
      const int b = (a + 1 + below(3)) % 4;
      const int what = below(6);
      if (what == 0) {
        sent.push_back(send(talk.desks, {a, b, below(3), static_cast<std::size_t>(below(3000)),
                                         SendMode::kSynchronous}));
      } else if (what == 1) {
        const Rank source = below(2) == 0 ? kAnyMailSource : Rank{b};
        taken.push_back(receive(talk.desks, {a, source, below(3), 3000}));
      } else if (what == 2) {
        talk.desks.progress(a);
      } else {
        talk.desks.deliver(a, b);
      }
    }
    const int lost = below(4);
    for (int at = 0; at < 4; ++at) {
      if (at != lost) lose(talk.desks, at, lost, below(2) == 0);
    }
    talk.desks.ways(lost).end(kDied);
    REQUIRE(talk.desks.settle());
    for (int at = 0; at < 4; ++at) {
      if (at != lost) lose(talk.desks, at, (lost + 1) % 4, true);
    }
    talk.desks.ways((lost + 1) % 4).end(kDied);
    // Of the two that are left, whatever still waits does so for the other one.
    REQUIRE(talk.desks.settle());
    for (const auto& one : sent) {
      const int dest = one->request.peer.value;
      const bool waits = dest == (lost + 2) % 4 || dest == (lost + 3) % 4;
      if (!waits) REQUIRE(one->request.is_done());
    }
    for (const auto& one : taken) {
      const Rank source = one->request.pattern.source;
      const bool waits = source == Rank{(lost + 2) % 4} || source == Rank{(lost + 3) % 4};
      if (!waits) REQUIRE(one->request.is_done());
    }
  }
}

}  // namespace holdfast::testing
