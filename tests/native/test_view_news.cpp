// What people are told of views: when it is known why somebody is out, or will not be.
#include "group/view_news.h"

#include <doctest/doctest.h>

#include "quiet_network.h"

namespace holdfast::ft {
namespace {

constexpr MemberId kA{1};
constexpr MemberId kB{2};
constexpr MemberId kC{3};
constexpr Instant kNow = Instant{} + std::chrono::hours(1);
constexpr Instant kLate = kNow + std::chrono::seconds(1);

WorldView view_of(Epoch epoch, std::vector<MemberId> members) {
  WorldView view;
  view.epoch = epoch;
  view.cards.resize(members.size());
  view.members = std::move(members);
  return view;
}

struct Teller {
  void lose_b() {
    news.on_view({view_of({1}, {kA, kB, kC}), view_of({2}, {kA, kNobody, kC}), {0}}, kNow);
  }
  using Said = std::vector<std::string>;
  QuietNetwork network;
  group::ViewNews news{network};
};

TEST_CASE("a loss is told of when its reason is known") {
  Teller t;
  t.lose_b();
  CHECK(t.network.said.empty());
  CHECK(t.news.next_deadline() == kLate);
  t.network.losses[kB] = {Status{Code::kPeerLost, "killed"}, true, false};
  t.news.progress(kNow);
  CHECK(t.network.said == Teller::Said{"view 2: lost rank 1; 2 of 3 ranks go on"});
  CHECK(t.news.next_deadline() == Instant{Duration::max()});
}

TEST_CASE("a loss without a reason is told of when none will come any more") {
  Teller t;
  t.lose_b();
  t.news.progress(kLate);
  CHECK(t.network.said == Teller::Said{"view 2: lost rank 1; 2 of 3 ranks go on"});
}

TEST_CASE("who is out at a step boundary has left, and nobody waits for a reason") {
  Teller t;
  const WorldView before = view_of({1}, {kA, kB, kC});
  t.news.on_view({before, view_of({2}, {kA, kNobody, kC}), {0}, true}, kNow);
  CHECK(t.network.said == Teller::Said{"view 2: rank 1 left; 2 of 3 ranks go on"});
}

TEST_CASE("who said goodbye, before its view or after, has left") {
  Teller before;
  before.news.on_goodbye(kB, true);
  before.lose_b();
  Teller after;
  after.lose_b();
  after.news.on_goodbye(kB, false);
  after.news.progress(kNow);
  for (const Teller* t : {&before, &after}) {
    CHECK(t->network.said == Teller::Said{"view 2: rank 1 left; 2 of 3 ranks go on"});
  }
}

TEST_CASE("whoever joins is told of, and views in their order") {
  Teller t;
  t.lose_b();
  t.news.on_view({view_of({2}, {kA, kNobody, kC}), view_of({3}, {kA, MemberId{9}, kC}), {0}}, kNow);
  CHECK(t.network.said.empty());
  t.news.progress(kLate);
  CHECK(t.network.said == Teller::Said{"view 2: lost rank 1; 2 of 3 ranks go on",
                                       "view 3: rank 1 joined; 3 of 3 ranks go on"});
}

TEST_CASE("a process that leaves tells what it knows") {
  Teller t;
  t.lose_b();
  t.news.end(kNow);
  CHECK(t.network.said == Teller::Said{"view 2: without rank 1; 2 of 3 ranks go on"});
}

}  // namespace
}  // namespace holdfast::ft
