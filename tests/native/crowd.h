// A crowd: the members of one large world, each with a part in four groups of all ranks and an op
// under way in each, in one process and without a network. Every message goes over the wire's
// encoding; counted are the messages, their bytes, and the processor's time of whoever makes and
// takes them.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ft/joining.h"
#include "ft/membership.h"
#include "group/report.h"

namespace holdfast::ft::testing {

// What the ops under way have left at their members.
enum class Left : std::uint8_t {
  kNothing,    // small ops: nobody holds any of the result
  kPartsOfIt,  // a ring was cut off: each holds other parts
};

// What groups they have.
enum class Groups : std::uint8_t {
  kSame,  // four of all ranks
  kOwn,   // one of them is another one at every member
};

struct Load {
  std::uint64_t messages_in = 0;
  std::uint64_t messages_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  double seconds = 0;
};

class Crowd {
 public:
  Crowd(int ranks, Left left, Groups groups = Groups::kSame) : left_(left), groups_(groups) {
    for (int r = 0; r < ranks; ++r) {
      view_.members.push_back(id(r));
      view_.cards.push_back(card(r));
    }
    view_.epoch = {1};
    for (int r = 0; r < ranks; ++r) {
      members_.emplace(id(r), std::make_unique<Membership>(kWorld, "job", id(r), view_, kSettings));
    }
  }

  // These end, and all others see it.
  void lose(const std::vector<int>& ranks) {
    loads_.clear();
    const Epoch next = next_epoch();
    for (const int rank : ranks) members_.erase(members_.find(at(rank)));
    for (const int rank : ranks) see_end(rank);
    settle(next);
  }

  // One ends, and another one when all have accepted the view without the first.
  void lose_while_proposed(int first, int second) {
    loads_.clear();
    const Epoch next = next_epoch();
    see_end(first);
    stops_at_accept_ = true;
    settle(next);
    stops_at_accept_ = false;
    see_end(second);
    settle({next.value + 1});
  }

  // A new process takes the vacant rank at the next step boundary.
  void join(int rank) {
    loads_.clear();
    newcomer_ = {newcomer_.value + 1};
    Joining joining("job", {newcomer_, Rank{rank}, card(rank)}, kBeat);
    joining.add_contact(members_.begin()->first);
    joining_ = &joining;
    const Epoch next = next_epoch();
    run([&] { return waits_for_boundary(); });
    for (auto& [self, member] : members_) {
      spend(self, [&, m = member.get(), s = self] {
        m->at_boundary(m->lobby_version(), body_of(*m, s), now_);
      });
    }
    run([&] { return joining.state() == Joining::JoiningState::kAdmitted && all_are_in(next); });
    members_.emplace(newcomer_,
                     std::make_unique<Membership>("job", newcomer_, joining.decision(), kSettings));
    joining_ = nullptr;
  }

  // What the last change has cost.
  Load total() const {
    Load all;
    for (const auto& [member, load] : loads_) {
      all.messages_in += load.messages_in;
      all.bytes_in += load.bytes_in;
      all.seconds += load.seconds;
    }
    return all;
  }
  // Most of the members of the view, newcomers left out: they have everything to learn.
  std::uint64_t most(std::uint64_t Load::*what) const {
    std::uint64_t most = 0;
    for (const auto& [member, load] : loads_) {
      if (member != newcomer_) most = std::max(most, load.*what);
    }
    return most;
  }
  Load of_newcomer() const { return of(newcomer_); }
  Load of_coordinator() const { return of(members_.begin()->first); }
  double median_seconds() const {
    std::vector<double> seconds;
    for (const auto& [member, load] : loads_) seconds.push_back(load.seconds);
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }
  // What the first member knows of the others' groups: those who have said that they have one of
  // their own.
  std::size_t own_groups_known() const { return own_groups_known_; }
  const WorldView& view() const { return members_.begin()->second->view(); }
  bool agrees() const {
    return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
      return member.second->view() == view() && !member.second->changing();
    });
  }

 private:
  struct Post {
    MemberId from;
    MemberId to;
    std::shared_ptr<const Message> message;
  };
  static constexpr CommId kWorld{0x9e3779b97f4a7c15};
  static constexpr Duration kBeat = std::chrono::milliseconds(500);
  static constexpr Duration kPatience = std::chrono::seconds(60);
  static constexpr int kRanksOnHost = 8;
  inline static const MembershipSettings kSettings{};

  static MemberId id(int rank) {
    return {0x5851f42d4c957f2dULL + static_cast<std::uint64_t>(rank)};
  }
  MemberId at(int rank) const { return view().members[static_cast<std::size_t>(rank)]; }
  Load of(MemberId member) const {
    const auto at = loads_.find(member);
    return at == loads_.end() ? Load{} : at->second;
  }
  Epoch next_epoch() const { return {view().epoch.value + 1}; }

  static std::string card(int rank) {
    const std::string host = "node" + std::to_string(rank / kRanksOnHost) + ".cluster.example";
    std::string card = "version=7;host=" + host + ";rank=" + std::to_string(rank) +
                       ";tcp=10.0.0.1:40000;boot=0123456789abcdef0123456789abcdef;pid=12345";
    card.resize(200, '.');
    return card;
  }

  // As a ring of as many parts as ranks leaves it, when it is cut off on its way round.
  group::OpReport op(int rank) const {
    group::OpReport op{OpSeq{100'000}, false, false, Epoch{1}, {}};
    if (left_ == Left::kNothing) return op;
    constexpr std::uint64_t kPart = 65'536;
    const auto first = static_cast<std::uint64_t>(rank);
    op.held.push_back({0, Ranges({first * kPart, (first + 2) * kPart})});
    return op;
  }

  Body body_of(const Membership& member, MemberId self) const {
    const auto& members = member.view().members;
    const auto rank =
        static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
    std::vector<group::GroupReport> reports;
    for (const char* name : {"world", "data", "tensor", "experts"}) {
      group::GroupIdentity group;
      group.id = {0xd1342543de82ef95ULL + reports.size()};
      group.name = name;
      group.whole = reports.empty();
      if (groups_ == Groups::kOwn && reports.size() == 3) group.name += std::to_string(rank);
      for (int r = 0; r < static_cast<int>(members.size()); ++r) group.world_ranks.push_back({r});
      group::GroupReport report;
      report.group = std::make_shared<const group::GroupIdentity>(std::move(group));
      report.next_sequence = 100'001;
      report.ops.push_back(op(rank));
      reports.push_back(std::move(report));
    }
    return encode(reports);
  }

  void see_end(int rank) {
    const MemberId lost = at(rank);
    members_.erase(lost);
    for (auto& [self, member] : members_) {
      spend(self, [&, m = member.get()] { m->on_closed(lost, now_); });
    }
  }

  template <class Work>
  void spend(MemberId self, Work work) {
    const double begun = processor_seconds();
    work();
    loads_[self].seconds += processor_seconds() - begun;
  }
  static double processor_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  void settle(Epoch next) {
    run([&] { return all_are_in(next); });
  }
  bool all_are_in(Epoch epoch) const {
    return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
      return member.second->view().epoch >= epoch && !member.second->changing();
    });
  }
  bool waits_for_boundary() const {
    return joining_->state() == Joining::JoiningState::kWaiting &&
           std::all_of(members_.begin(), members_.end(), [](const auto& member) {
             return member.second->lobby_version() > member.second->admitted_version();
           });
  }

  // Until it is done, and nothing is on its way any more.
  template <class Done>
  void run(Done done) {
    for (const Instant end = now_ + kPatience; now_ < end;) {
      collect();
      if (!posts_.empty()) {
        if (stops_at_accept_ && posts_.front().message->kind == MessageKind::kAccept) return;
        deliver();
        continue;
      }
      if (done()) return;
      now_ = now_ + std::chrono::milliseconds(10);
      for (auto& [self, member] : members_) {
        if (now_ < member->next_tick()) continue;
        spend(self, [&, m = member.get()] { m->tick(now_); });
        awake_.insert(self);
      }
      if (joining_ == nullptr) continue;
      joining_->tick(now_, [](MemberId) { return true; });
    }
  }

  void collect() {
    if (awake_.empty() && posts_.empty()) {
      for (const auto& [self, member] : members_) awake_.insert(self);
    }
    for (const MemberId self : std::exchange(awake_, {})) {
      const auto at = members_.find(self);
      while (at != members_.end() && at->second->has_actions()) carry_out(self, *at->second);
    }
    if (joining_ == nullptr) return;
    for (auto& [to, message] : joining_->take_sends()) {
      message.world = kWorld;  // as its receiver does
      post(newcomer_, to, std::move(message));
    }
  }

  void carry_out(MemberId self, Membership& member) {
    for (Action& action : member.take_actions()) {
      if (auto* send = std::get_if<SendTo>(&action)) {
        post(self, send->to, std::move(send->message));
      } else if (std::holds_alternative<StopFor>(action)) {
        spend(self, [&] { member.reported(body_of(member, self), now_); });
      } else if (const auto* next = std::get_if<Adopt>(&action)) {
        group::WorldReports reports;
        spend(self, [&] { reports = group::decode_reports(next->reports); });
        if (&member == members_.begin()->second.get()) note(reports);
      }
    }
  }

  void note(const group::WorldReports& reports) {
    own_groups_known_ = static_cast<std::size_t>(
        std::count_if(reports.begin(), reports.end(), [&](const auto& said) {
          const auto rank = std::find(view_.members.begin(), view_.members.end(), said.first);
          const auto name = "experts" + std::to_string(rank - view_.members.begin());
          return said.second->size() == 4 && said.second->back().group->name == name;
        }));
  }

  void post(MemberId from, MemberId to, Message message) {
    posts_.push_back({from, to, std::make_shared<const Message>(std::move(message))});
  }

  void deliver() {
    const Post post = std::move(posts_.front());
    posts_.pop_front();
    Bytes bytes;
    spend(post.from, [&] { bytes = encode(*post.message); });
    Load& from = loads_[post.from];
    ++from.messages_out;
    from.bytes_out += bytes.size();
    const auto to = members_.find(post.to);
    if (to == members_.end() && (joining_ == nullptr || post.to != newcomer_)) return;
    Load& load = loads_[post.to];
    ++load.messages_in;
    load.bytes_in += bytes.size();
    spend(post.to, [&] {
      const auto message = decode(bytes);
      if (!message.is_ok()) return;
      if (to != members_.end()) return to->second->on_message(post.from, message.value(), now_);
      joining_->on_message(post.from, message.value());
    });
    awake_.insert(post.to);
  }

  Left left_;
  Groups groups_;
  WorldView view_;  // the first
  std::size_t own_groups_known_ = 0;
  MemberId newcomer_{3ULL << 62};
  std::map<MemberId, std::unique_ptr<Membership>> members_;  // by rank, newcomers last
  Joining* joining_ = nullptr;
  bool stops_at_accept_ = false;
  std::set<MemberId> awake_;
  std::deque<Post> posts_;
  std::map<MemberId, Load> loads_;
  Instant now_{};
};

}  // namespace holdfast::ft::testing
