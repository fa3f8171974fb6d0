// Members of a world among themselves, without a network: who is told what, and what is withdrawn.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <variant>

#include "ft/membership.h"

namespace holdfast::ft {
namespace {

using std::chrono::milliseconds;

constexpr CommId kWorld{9};
constexpr Duration kBeat = milliseconds(100);

MemberId member(int rank) { return {static_cast<std::uint64_t>(rank) + 1}; }

// Messages arrive at once, but for those of members that are stopped, which wait.
class Members {
 public:
  explicit Members(int count) {
    WorldView view;
    view.epoch = {1};
    for (int r = 0; r < count; ++r) {
      view.members.push_back(member(r));
      view.cards.emplace_back("card");
    }
    MembershipSettings settings;
    settings.heartbeat = kBeat;
    for (int r = 0; r < count; ++r) {
      members_.emplace(member(r), Membership(kWorld, "job", member(r), view, settings));
    }
  }

  Membership& at(int rank) { return members_.at(member(rank)); }
  void stop(int rank) { stopped_.insert(member(rank)); }
  void go_on(int rank) { stopped_.erase(member(rank)); }
  void is_silent(int rank, int of) { at(rank).on_silent(member(of), now_); }
  void hears(int rank, int again) { at(rank).on_heard(member(again), now_); }
  void relink(int a, int b) {
    at(a).on_relinked(member(b), now_);
    at(b).on_relinked(member(a), now_);
  }

  void run(Duration time) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + milliseconds(10)) {
      for (auto& [id, m] : members_) {
        if (!stopped_.contains(id) && now_ >= m.next_tick()) m.tick(now_);
      }
      while (step()) continue;
    }
  }

 private:
  struct Post {
    MemberId from;
    MemberId to;
    Message message;
  };

  bool step() {
    for (auto& [id, m] : members_) {
      if (stopped_.contains(id)) continue;
      for (Action& action : m.take_actions()) {
        if (auto* send = std::get_if<SendTo>(&action)) {
          posts_.push_back({id, send->to, std::move(send->message)});
        } else if (std::holds_alternative<StopFor>(action)) {
          m.reported({}, now_);
        }
      }
    }
    const auto next = std::find_if(posts_.begin(), posts_.end(),
                                   [&](const Post& post) { return !stopped_.contains(post.to); });
    if (next == posts_.end()) return false;
    const Post post = std::move(*next);
    posts_.erase(next);
    members_.at(post.to).on_message(post.from, post.message, now_);
    return true;
  }

  std::map<MemberId, Membership> members_;
  std::set<MemberId> stopped_;
  std::deque<Post> posts_;
  Instant now_{};
};

TEST_CASE("a connection that was made anew ends the view, and loses nobody") {
  for (int count = 2; count <= 4; ++count) {
    Members world(count);
    world.relink(0, count - 1);
    world.run(kBeat);
    for (int r = 0; r < count; ++r) {
      CHECK(world.at(r).view().epoch.value >= 2);
      CHECK(world.at(r).view() == world.at(0).view());
      CHECK(world.at(r).view().present().size() == static_cast<std::size_t>(count));
      CHECK_FALSE(world.at(r).changing());
    }
  }
}

// Neither has a quorum without the other: it used to wait for ever for what was there.
TEST_CASE("of two, the first is stopped for some time: both go on when it is back") {
  Members world(2);
  world.stop(0);
  world.is_silent(1, 0);
  world.run(kBeat * 5);
  CHECK(world.at(1).blocked().find("no quorum") != std::string::npos);
  world.go_on(0);
  world.hears(1, 0);
  world.run(kBeat * 5);
  for (const int r : {0, 1}) {
    CHECK(world.at(r).view().present().size() == 2);
    CHECK_FALSE(world.at(r).changing());
    CHECK_FALSE(world.at(r).fenced());
  }
}

TEST_CASE("a complaint of those who were stopped themselves votes nobody out") {
  Members world(4);
  // 2 and 3 were stopped, and think that it was the others; these hear everybody.
  for (const int stopped : {2, 3}) {
    for (const int healthy : {0, 1}) world.is_silent(stopped, healthy);
  }
  for (const int stopped : {2, 3}) {
    for (const int healthy : {0, 1}) world.hears(stopped, healthy);
  }
  world.run(kBeat * 8);
  for (int r = 0; r < 4; ++r) {
    CHECK(world.at(r).view().present().size() == 4);
    CHECK_FALSE(world.at(r).fenced());
    CHECK_FALSE(world.at(r).changing());
  }
}

TEST_CASE("of two that do not hear each other one goes; when they do again, none") {
  for (const bool hear_again : {false, true}) {
    Members world(4);
    world.is_silent(1, 3);
    world.is_silent(3, 1);
    if (hear_again) {
      world.run(kBeat / 2);
      world.hears(1, 3);
      world.hears(3, 1);
    }
    world.run(kBeat * 8);
    CHECK(world.at(0).view().present().size() == (hear_again ? 4 : 3));
    CHECK(world.at(3).fenced() == !hear_again);
  }
}

TEST_CASE("who was voted out is told when it can be reached, and says so to whoever asks it") {
  Members world(4);
  world.stop(0);
  for (int r = 1; r < 4; ++r) world.is_silent(r, 0);
  world.run(kBeat * 5);
  CHECK(world.at(1).view().present().size() == 3);
  world.go_on(0);
  world.run(kBeat * 5);
  CHECK(world.at(0).fenced());
  // Whoever still takes it for the coordinator hears that it is none.
  Message report;
  report.kind = MessageKind::kReport;
  report.world = kWorld;
  report.epoch = {1};
  world.at(0).on_message(member(1), report, {});
  bool answered = false;
  for (const Action& action : world.at(0).take_actions()) {
    const auto* send = std::get_if<SendTo>(&action);
    answered = answered || (send != nullptr && send->message.kind == MessageKind::kOut);
  }
  CHECK(answered);
}

// It is the first of them, and so the coordinator in the others' eyes: it was sent to itself.
TEST_CASE("who was let in and has not heard so is told by any member that it asks") {
  Members world(3);
  Message join;
  join.kind = MessageKind::kJoin;
  join.world = kWorld;
  join.text = "job";
  join.joiners = {{member(0), Rank{0}, "card"}};
  world.at(2).on_message(member(0), join, {});
  const std::vector<Action> actions = world.at(2).take_actions();
  REQUIRE(actions.size() == 1);
  const auto& answer = std::get<SendTo>(actions[0]);
  CHECK(answer.to == member(0));
  CHECK(answer.message.kind == MessageKind::kDecide);
  CHECK(answer.message.view == world.at(2).view());
}

}  // namespace
}  // namespace holdfast::ft
