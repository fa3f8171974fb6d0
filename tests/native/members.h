// Members of a world among themselves, without a network: messages arrive at once, but for those of
// members that are stopped, which wait, and those that a test loses.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "ft/membership.h"

namespace holdfast::ft::testing {

class Members {
 public:
  struct Post {
    MemberId from;
    MemberId to;
    Message message;
  };
  static constexpr CommId kWorld{9};
  static constexpr Duration kBeat = std::chrono::milliseconds(100);

  static MemberId member(int rank) { return {static_cast<std::uint64_t>(rank) + 1}; }

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
      bodies[r] = {{std::byte{7}}, {static_cast<std::byte>(r)}};
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
  // The process ends, and all others see it.
  void die(int rank) {
    members_.erase(member(rank));
    std::erase_if(posts_, [&](const Post& post) { return post.to == member(rank); });
    for (auto& [id, m] : members_) m.on_closed(member(rank), now_);
  }

  void run(Duration time) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + std::chrono::milliseconds(10)) {
      for (auto& [id, m] : members_) {
        if (!stopped_.contains(id) && now_ >= m.next_tick()) m.tick(now_);
      }
      while (step()) continue;
    }
  }

  // Of those that were sent, lost ones included.
  std::vector<Message> said(MessageKind kind, int from, int to) const {
    std::vector<Message> found;
    for (const Post& post : log_) {
      const bool is_one = post.message.kind == kind && post.from == member(from);
      if (is_one && post.to == member(to)) found.push_back(post.message);
    }
    return found;
  }
  // What the view that the member of this rank has adopted last was decided on.
  const Reports& reports(int rank) const { return adopted_.at(member(rank)); }

  std::map<int, Body> bodies;                // by rank: what it holds
  std::function<bool(const Post&)> is_lost;  // on its way

 private:
  bool step() {
    for (auto& [id, m] : members_) {
      if (stopped_.contains(id)) continue;
      for (Action& action : m.take_actions()) carry_out(id, m, action);
    }
    const auto next = std::find_if(posts_.begin(), posts_.end(),
                                   [&](const Post& post) { return !stopped_.contains(post.to); });
    if (next == posts_.end()) return false;
    const Post post = std::move(*next);
    posts_.erase(next);
    const auto to = members_.find(post.to);
    if (to != members_.end()) to->second.on_message(post.from, post.message, now_);
    return true;
  }

  void carry_out(MemberId self, Membership& m, Action& action) {
    if (auto* send = std::get_if<SendTo>(&action)) {
      log_.push_back({self, send->to, std::move(send->message)});
      if (!is_lost || !is_lost(log_.back())) posts_.push_back(log_.back());
    } else if (std::holds_alternative<StopFor>(action)) {
      m.reported(bodies.at(static_cast<int>(self.value) - 1), now_);
    } else if (auto* adopt = std::get_if<Adopt>(&action)) {
      adopted_[self] = std::move(adopt->reports);
    }
  }

  std::map<MemberId, Membership> members_;
  std::set<MemberId> stopped_;
  std::deque<Post> posts_;
  std::vector<Post> log_;
  std::map<MemberId, Reports> adopted_;
  Instant now_{};
};

}  // namespace holdfast::ft::testing
