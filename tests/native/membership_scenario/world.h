// The world of a membership scenario: members, newcomers and, where there is one, a coordinator in
// a process of its own; the real state machines, on virtual time. Nothing happens by itself: a
// message arrives when the scenario delivers it, and time passes when it says so. Whatever comes of
// that is a line of the trace.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ft/coordinator_service.h"
#include "ft/joining.h"
#include "ft/membership.h"
#include "sim/memory_record.h"
#include "words.h"

namespace holdfast::ft::testing {

class ScenarioWorld {
 public:
  using Ids = std::vector<MemberId>;
  static constexpr Duration kBeat = std::chrono::milliseconds(100);
  static constexpr Duration kSilence = std::chrono::seconds(1);
  static constexpr Duration kTurn = std::chrono::milliseconds(10);  // between looks at the clock

  std::vector<std::string> take_trace() { return std::exchange(trace_, {}); }
  bool runs(MemberId id) const {
    return members_.contains(id) || newcomers_.contains(id) || (id == kCoordinatorId && service_);
  }
  bool has_come(MemberId id) const { return known_.contains(id); }
  bool is_member(MemberId id) const { return members_.contains(id); }
  // Members and newcomers that run.
  Ids all() const {
    std::set<MemberId> ids;
    for (const auto& [id, member] : members_) ids.insert(id);
    for (const auto& [id, newcomer] : newcomers_) ids.insert(id);
    return {ids.begin(), ids.end()};
  }

  // They know each other from view 1. If there is a coordinator, it is theirs.
  void found(const Ids& ids) {
    WorldView view;
    view.epoch = {1};
    view.members = ids;
    view.cards.resize(ids.size(), "card");
    words_.learn_decided(view);
    for (const MemberId id : ids) {
      members_.emplace(id, Membership(kWorld, kName, id, view, settings()));
      known_.insert(id);
    }
  }
  void start_coordinator(bool with_record) {
    has_coordinator_ = true;
    CoordinatorService::Settings settings;
    settings.heartbeat = kBeat;
    settings.silence = kSilence;
    settings.instance = settings.started = ++lives_;
    settings.record = with_record ? &record_ : nullptr;
    service_.emplace(settings);
    connected_.clear();
    known_.insert(kCoordinatorId);
  }

  void end(MemberId id) {
    lose([&](const Post& post) { return post.to == id; });
    members_.erase(id);
    newcomers_.erase(id);
    why_.erase(id);
    if (id == kCoordinatorId) service_.reset();
  }
  void see_end(MemberId who, MemberId of) {
    lose([&](const Post& post) { return post.from == of && post.to == who; });
    turn(
        who, [&](Membership& m) { m.on_closed(of, now_); }, [&](Joining& j) { j.on_closed(of); },
        [&](CoordinatorService& c) { c.on_closed(of, true, now_); });
  }
  void hear_nothing(MemberId who, MemberId of) {
    turn(
        who, [&](Membership& m) { m.on_silent(of, now_); }, [](Joining&) {},
        [&](CoordinatorService& c) { c.on_silent(of, now_); });
  }
  void hear_again(MemberId who, MemberId again) {
    turn(
        who, [&](Membership& m) { m.on_heard(again, now_); }, [](Joining&) {},
        [&](CoordinatorService& c) { c.on_heard(again); });
  }
  // It says goodbye to all members that hear it, and to a coordinator outside the view.
  void leave(MemberId id) {
    left_.insert(id);
    Membership& leaver = members_.at(id);
    leaver.leave(now_);
    leaver.retire();
    collect(id);
    for (const MemberId other : all()) {
      if (other == id || !members_.contains(other) || is_cut(other, id)) continue;
      Membership& m = members_.at(other);
      m.on_left(id);
      // A change that is under way waits for its word.
      if (m.changing()) m.on_closed(id, now_);
      collect(other);
    }
  }
  void miss(MemberId who, MemberId of) {
    members_.at(who).on_missed(of, now_);
    collect(who);
  }
  void connect_anew(MemberId a, MemberId b) {
    members_.at(a).on_relinked(b, now_);
    collect(a);
    members_.at(b).on_relinked(a, now_);
    collect(b);
  }
  void greet(MemberId id) {
    connected_.insert(id);
    turn(
        id,
        [&](Membership& m) {
          if (!m.fenced()) m.greet(now_);
        },
        [](Joining&) {}, [](CoordinatorService&) {});
  }
  // An operator asks the coordinator for it. Not ok: it refuses.
  Status kick(MemberId id) {
    return order(id, [&](auto& asked) { return service_->kick(asked, now_); });
  }
  Status drain(MemberId id) {
    return order(id, [&](auto& asked) { return service_->drain(asked, now_ + kDrainTime); });
  }
  Status pause() {
    const Status done = service_->pause(kName, now_ + kDrainTime);
    collect(kCoordinatorId);
    return done;
  }
  Status resume() {
    const Status done = service_->resume(kName, now_);
    collect(kCoordinatorId);
    return done;
  }
  void reach_boundary(MemberId id) {
    Membership& m = members_.at(id);
    m.at_boundary(m.lobby_version(), body_of(id), now_);
    collect(id);
  }
  struct LateJoin {
    MemberId who;
    MemberId asks;
    Rank wanted{-1};
    std::size_t peers = 0;  // that a world which it founds waits for
  };
  void come(const LateJoin& arrival) {
    const Joiner self{arrival.who, arrival.wanted, "card"};
    Joining joining(kName, self, kBeat, arrival.peers);
    joining.add_contact(arrival.asks);
    newcomers_.emplace(arrival.who, std::move(joining));
    known_.insert(arrival.who);
    if (arrival.asks == kCoordinatorId) connected_.insert(arrival.who);
    collect(arrival.who);
  }

  // Nothing gets from one side to the other, either way.
  void cut(const Ids& side, const Ids& other) {
    for (const MemberId a : side) {
      for (const MemberId b : other) cuts_.insert(std::minmax(a, b));
    }
    lose([&](const Post& post) { return is_cut(post.from, post.to); });
  }
  void heal() { cuts_.clear(); }

  struct Route {
    MemberId from;
    MemberId to;
  };
  std::vector<std::string> on_the_way(const Route& route) const {
    std::vector<std::string> kinds;
    for (const Post& post : posts_) {
      if (is_on(route, post)) kinds.emplace_back(kind_name(post.message.kind));
    }
    return kinds;
  }
  // The next one of this route, without a word of it in the trace: the scenario has named it.
  void deliver_next(const Route& route) { hear(take(route)); }
  void drop_next(const Route& route) { (void)take(route); }
  // What is on its way there by now.
  void deliver(const Route& route) {
    for (auto left = on_the_way(route).size(); left > 0; --left) deliver_aloud(take(route));
  }
  void drop(const Route& route) {
    lose([&](const Post& post) { return is_on(route, post); });
  }
  // Everything, in the order in which it was sent, and what comes of it.
  void deliver_all() {
    for (int left = kMostMessages; !posts_.empty() && left > 0; --left) {
      const Post post = std::move(posts_.front());
      posts_.pop_front();
      deliver_aloud(post);
    }
    if (!posts_.empty()) trace_.emplace_back("there is no end of it");
  }
  void drop_all() {
    lose([](const Post&) { return true; });
  }

  void pass(Duration time, bool delivers) {
    for (const Instant until = now_ + time; now_ < until;) {
      now_ = now_ + kTurn;
      const std::size_t before = trace_.size();
      for (const MemberId id : all()) {
        turn(
            id,
            [&](Membership& m) {
              if (now_ >= m.next_tick()) m.tick(now_);
            },
            [](Joining&) {}, [](CoordinatorService&) {});
      }
      if (service_ && now_ >= service_->next_tick()) {
        service_->tick(now_);
        collect(kCoordinatorId);
      }
      if (delivers) deliver_all();
      if (trace_.size() == before) continue;
      const auto at = std::chrono::duration_cast<std::chrono::milliseconds>(now_.since_origin);
      trace_.insert(trace_.begin() + static_cast<std::ptrdiff_t>(before),
                    "at " + std::to_string(at.count()) + " ms");
    }
  }

  void say_standing() {
    for (const auto& [id, m] : members_) {
      std::string text = name_of(id) + " is in " + view_words(m.view());
      if (m.fenced()) text += left_.contains(id) ? ", has left" : ", is fenced";
      if (!m.fenced() && m.changing()) text += ", has stopped";
      if (!m.at_large().empty()) {
        Ids outcasts;
        for (const Outcast& outcast : m.at_large()) outcasts.push_back(outcast.member);
        text += ", has not heard from outcast " + names_of(outcasts);
      }
      trace_.push_back(std::move(text));
    }
    for (const auto& [id, newcomer] : newcomers_) {
      const bool waits = newcomer.state() == Joining::JoiningState::kWaiting;
      trace_.push_back(name_of(id) + (waits ? " is in the lobby" : " is outside"));
    }
    if (!service_) return;
    for (const auto& world : service_->worlds()) {
      trace_.push_back("coordinator has " + view_words(world.view) + ", " +
                       std::to_string(world.waiting) + " waiting");
    }
  }

 private:
  static constexpr Duration kDrainTime = std::chrono::minutes(1);
  template <class Asks>
  Status order(MemberId id, Asks asks) {
    Status done{Code::kConfigError, "the coordinator knows no such member"};
    for (const auto& world : service_->worlds()) {
      for (std::size_t r = 0; r < world.view.members.size(); ++r) {
        if (world.view.members[r] != id) continue;
        const CoordinatorService::MemberOrder asked{
            world.name, {static_cast<std::int32_t>(r)}, "it is time"};
        done = asks(asked);
      }
    }
    collect(kCoordinatorId);
    return done;
  }
  struct Post {
    MemberId from;
    MemberId to;
    Message message;
  };
  static constexpr CommId kWorld{7};
  static constexpr const char* kName = "job";
  // More than any scenario means: two that answer each other for ever would run for ever.
  static constexpr int kMostMessages = 1000;

  // One group that all have, and one op of each.
  static Body body_of(MemberId id) { return {{std::byte{7}}, {static_cast<std::byte>(id.value)}}; }
  static bool is_on(const Route& route, const Post& post) {
    return post.from == route.from && post.to == route.to;
  }
  MembershipSettings settings() const {
    MembershipSettings settings;
    settings.heartbeat = kBeat;
    settings.silence = kSilence;
    settings.coordinator = has_coordinator_ ? kCoordinatorId : kNobody;
    return settings;
  }
  bool is_cut(MemberId a, MemberId b) const { return cuts_.contains(std::minmax(a, b)); }
  bool reaches(MemberId a, MemberId b) const {
    const bool met = (a != kCoordinatorId || connected_.contains(b)) &&
                     (b != kCoordinatorId || connected_.contains(a));
    return met && runs(a) && runs(b) && !is_cut(a, b);
  }

  Post take(const Route& route) {
    const auto at = std::find_if(posts_.begin(), posts_.end(),
                                 [&](const Post& post) { return is_on(route, post); });
    Post post = std::move(*at);
    posts_.erase(at);
    return post;
  }
  template <class Which>
  void lose(Which which) {
    for (const Post& post : posts_) {
      if (!which(post)) continue;
      trace_.push_back(name_of(post.from) + " -x " + name_of(post.to) + ": " +
                       std::string(kind_name(post.message.kind)));
    }
    std::erase_if(posts_, which);
  }
  void deliver_aloud(const Post& post) {
    trace_.push_back(name_of(post.to) + " <- " + name_of(post.from) + ": " +
                     std::string(kind_name(post.message.kind)));
    hear(post);
  }
  void hear(const Post& post) {
    // A newcomer knows its world by name only.
    Message named = post.message;
    if (named.kind == MessageKind::kJoin) named.world = kWorld;
    turn(
        post.to, [&](Membership& m) { m.on_message(post.from, named, now_); },
        [&](Joining& j) { j.on_message(post.from, post.message); },
        [&](CoordinatorService& c) { c.on_message(post.from, post.message, now_); });
  }

  template <class AsMember, class AsNewcomer, class AsCoordinator>
  void turn(MemberId id, AsMember as_member, AsNewcomer as_newcomer, AsCoordinator as_coordinator) {
    if (const auto m = members_.find(id); m != members_.end()) as_member(m->second);
    if (const auto j = newcomers_.find(id); j != newcomers_.end()) as_newcomer(j->second);
    if (id == kCoordinatorId && service_) as_coordinator(*service_);
    collect(id);
  }

  void send(MemberId from, MemberId to, Message message) {
    words_.learn(message);
    const bool arrives = reaches(from, to);
    trace_.push_back(name_of(from) + (arrives ? " -> " : " -x ") + name_of(to) + ": " +
                     words_.of(message));
    if (arrives) posts_.push_back({from, to, std::move(message)});
  }

  // What it does about what it was told.
  void collect(MemberId id) {
    if (const auto m = members_.find(id); m != members_.end()) collect_member(id, m->second);
    if (const auto j = newcomers_.find(id); j != newcomers_.end()) collect_newcomer(id, j->second);
    if (id == kCoordinatorId && service_) collect_coordinator();
  }

  void collect_member(MemberId id, Membership& m) {
    while (m.has_actions()) {
      for (Action& action : m.take_actions()) carry_out(id, m, action);
    }
    say_why(id, " cannot decide: ", m.blocked());
  }

  void carry_out(MemberId id, Membership& m, Action& action) {
    if (auto* said = std::get_if<SendTo>(&action)) {
      send(id, said->to, std::move(said->message));
    } else if (const auto* stop = std::get_if<StopFor>(&action)) {
      trace_.push_back(name_of(id) + " stops for " + names_of(stop->lost));
      m.reported(body_of(id), now_);
    } else if (const auto* adopt = std::get_if<Adopt>(&action)) {
      begin_view(id, adopt->view, adopt->boundary);
    } else if (const auto* fenced = std::get_if<Fenced>(&action)) {
      trace_.push_back(name_of(id) + " is fenced: " + fenced->why);
    }
  }

  void begin_view(MemberId id, const WorldView& view, bool boundary) {
    words_.learn_decided(view);
    std::string text = name_of(id) + " begins " + view_words(view);
    if (boundary) text += " at a step boundary";
    Ids outcasts;
    for (const Outcast& outcast : view.outcasts) outcasts.push_back(outcast.member);
    if (!outcasts.empty()) text += ", outcast " + names_of(outcasts);
    trace_.push_back(std::move(text));
  }

  void collect_newcomer(MemberId id, Joining& newcomer) {
    newcomer.tick(now_, [&](MemberId other) { return reaches(id, other); });
    for (auto& [to, message] : newcomer.take_sends()) send(id, to, std::move(message));
    say_why(id, " waits: ", newcomer.reason());
    if (newcomer.state() == Joining::JoiningState::kRefused) {
      trace_.push_back(name_of(id) + " is refused: " + newcomer.refusal());
      newcomers_.erase(id);
      return;
    }
    if (newcomer.state() != Joining::JoiningState::kAdmitted) return;
    const Message decision = newcomer.decision();
    newcomers_.erase(id);
    begin_view(id, decision.view, decision.boundary);
    members_.emplace(id, Membership(kName, id, decision, settings()));
  }

  void collect_coordinator() {
    say_record();  // it is written before anything is sent
    for (auto sends = service_->take_sends(); !sends.empty(); sends = service_->take_sends()) {
      for (auto& [to, message] : sends) send(kCoordinatorId, to, std::move(message));
    }
    std::string why;
    service_->each_world([&](const Coordinator& c) { why += c.blocked(); });
    say_why(kCoordinatorId, " cannot decide: ", why);
  }

  void say_record() {
    if (record_.worlds == said_record_) return;
    for (const auto& [key, entry] : record_.worlds) {
      const auto before = said_record_.find(key);
      if (before != said_record_.end() && before->second == entry) continue;
      trace_.push_back("the record says view " + std::to_string(entry.epoch.value) + " of " +
                       names_of(entry.members));
    }
    if (record_.worlds.empty()) trace_.emplace_back("the record says nothing");
    said_record_ = record_.worlds;
  }

  // Once, while it is the same.
  void say_why(MemberId id, const std::string& says, const std::string& why) {
    if (std::exchange(why_[id], why) == why || why.empty()) return;
    trace_.push_back(name_of(id) + says + why);
  }

  Instant now_{};
  std::map<MemberId, Membership> members_;
  std::map<MemberId, Joining> newcomers_;
  std::optional<CoordinatorService> service_;
  bool has_coordinator_ = false;
  std::uint64_t lives_ = 0;
  sim::MemoryRecord record_;
  std::map<std::string, WorldRecord> said_record_;
  std::set<MemberId> connected_;  // to the coordinator in a process of its own
  std::set<MemberId> known_;      // who has ever been there
  std::set<MemberId> left_;
  std::set<std::pair<MemberId, MemberId>> cuts_;
  std::deque<Post> posts_;
  std::map<MemberId, std::string> why_;
  Words words_;
  std::vector<std::string> trace_;
};

}  // namespace holdfast::ft::testing
