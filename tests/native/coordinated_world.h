// A coordinator in a process of its own and the members that it coordinates, on virtual time, with
// a network between them that can be cut. The real state machines; no sockets.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ft/coordinator_service.h"
#include "ft/joining.h"
#include "ft/membership.h"
#include "sim/memory_record.h"

namespace holdfast::ft::testing {

inline constexpr MemberId kHere{1000};  // the coordinator, whatever life it is in
inline constexpr Duration kBeat = std::chrono::milliseconds(100);

using sim::MemoryRecord;

class CoordinatedWorld {
 public:
  explicit CoordinatedWorld(Record* record = nullptr, Notary* notary = nullptr)
      : record_(record), notary_(notary) {
    start();
  }

  // The coordinator begins anew, knowing nothing.
  void start() {
    CoordinatorService::Settings settings;
    settings.heartbeat = kBeat;
    settings.instance = settings.started = ++lives_;
    settings.keep = keep;
    settings.record = record_;
    settings.quotas = quotas;
    settings.notary = notary_;
    service_.emplace(settings);
    connected_.clear();
    muted_ = false;
  }
  // Nothing that the coordinator says from now on gets out.
  void mute() { muted_ = true; }
  void end() { service_.reset(); }

  // Members of a world that they founded without the coordinator.
  void found(const std::vector<std::uint64_t>& ids, CommId world = {7}) {
    WorldView view;
    view.epoch = {1};
    for (const auto id : ids) view.members.push_back({id});
    view.cards.resize(ids.size());
    for (const auto id : ids) {
      members_.emplace(MemberId{id},
                       std::make_unique<Membership>(world, "run", MemberId{id}, view, settings()));
    }
  }
  // A stranger that wants into the elastic group, until it is a member.
  void come(std::uint64_t id, std::size_t min_peers = 1) {
    const Joiner self{{id}, Rank{-1}, "card"};
    auto joining = std::make_unique<Joining>("run", self, kBeat, min_peers);
    joining->add_contact(kHere);
    strangers_[{id}] = std::move(joining);
  }
  // The process ends; `proven`: its coordinator sees it.
  void die(std::uint64_t id, bool proven) {
    members_.erase({id});
    strangers_.erase({id});
    if (service_ && connected_.erase({id}) > 0) {
      service_->on_closed({id}, proven, now);
    }
  }
  // All members are told of its end by their kernels.
  void prove_end(std::uint64_t id) {
    for (auto& [other, member] : members_) member->on_closed({id}, now);
  }
  // Only those on the side of `ids` reach the coordinator, and each other.
  void part(std::set<std::uint64_t> ids) { with_ = std::move(ids); }
  void heal() { with_.reset(); }
  // Both sides of the cut notice that they do not hear each other.
  void notice_silence() {
    for (auto& [id, member] : members_) {
      for (const auto& [other, ignored] : members_) {
        if (other != id && !reaches(id, other)) member->on_silent(other, now);
      }
      if (service_ && connected_.contains(id) && !reaches(id, kHere)) {
        service_->on_silent(id, now);
      }
    }
  }
  // The process may be in no world any more. It lives on.
  void expel(std::uint64_t id) {
    service_->expel({id}, "it was shown out", now);
    answer();
    connected_.erase({id});
  }
  CoordinatorService& service() { return *service_; }
  // All members that know of a lobby that their view has not admitted come to a step boundary, as
  // the vote of theirs has them.
  void reach_boundary() {
    std::uint64_t lobby = 0;
    for (auto& [id, m] : members_) lobby = std::max(lobby, m->lobby_version());
    for (auto& [id, m] : members_) {
      if (!m->fenced() && lobby > m->admitted_version()) at_boundary_[id] = false;
    }
    lobby_ = lobby;
  }
  // A process that is nobody's member here tells the coordinator something.
  void say(std::uint64_t id, const Message& message) {
    connected_.insert({id});
    service_->on_message({id}, message, now);
    answer();
  }
  // What it was answered.
  const std::vector<Message>& answers(std::uint64_t id) { return answers_[{id}]; }
  // The connection to the coordinator breaks, without a word about the process.
  void cut(std::uint64_t id) {
    if (connected_.erase({id}) > 0) service_->on_closed({id}, false, now);
  }

  void run(Duration time) {
    const Instant until = now + time;
    for (; now < until; now = now + kBeat / 10) step();
  }

  std::string blocked() const {
    std::string text;
    if (service_) service_->each_world([&](const auto& c) { text += c.blocked(); });
    return text;
  }
  std::size_t worlds() const { return service_->worlds().size(); }
  const Membership* member(std::uint64_t id) const {
    const auto at = members_.find({id});
    return at == members_.end() ? nullptr : at->second.get();
  }
  std::vector<std::uint64_t> view_of(std::uint64_t id) const {
    std::vector<std::uint64_t> ids;
    if (const Membership* m = member(id)) {
      for (const MemberId other : m->view().present()) ids.push_back(other.value);
    }
    return ids;
  }
  CommId world_id(std::uint64_t id) const { return world_of_.at({id}); }
  bool fenced(std::uint64_t id) const { return fenced_.contains({id}); }
  std::string why_out(std::uint64_t id) { return why_[{id}]; }
  std::string refusal(std::uint64_t id) const { return strangers_.at({id})->refusal(); }
  std::string reason(std::uint64_t id) const {
    const auto at = strangers_.find({id});
    return at == strangers_.end() ? "" : at->second->reason();
  }
  bool waits(std::uint64_t id) const { return strangers_.contains({id}); }

  Instant now{std::chrono::seconds(100)};
  Duration keep = kKeepWorlds;
  Quotas quotas;
  int boundaries = 0;  // views of members that began at a step boundary
  int forks = 0;       // views that are not the same for all who adopted them

 private:
  MembershipSettings settings() const {
    MembershipSettings settings;
    settings.heartbeat = kBeat;
    settings.coordinator = kHere;
    settings.silence = kBeat * 20;
    settings.notary = notary_;
    return settings;
  }

  bool reaches(MemberId a, MemberId b) const {
    const auto side = [&](MemberId m) { return m == kHere || !with_ || with_->contains(m.value); };
    return side(a) == side(b);
  }

  void step() {
    for (auto& [id, member] : members_) {
      const bool connects = service_ && reaches(id, kHere) && connected_.insert(id).second;
      if (connects && !member->fenced()) member->greet(now);
      member->tick(now);
      const auto waits = at_boundary_.find(id);
      if (waits != at_boundary_.end() && !waits->second && !member->changing()) {
        waits->second = true;
        member->at_boundary(lobby_, {}, now);
      }
      carry_out(id);
    }
    for (auto& [id, stranger] : strangers_) {
      stranger->tick(now, [&, self = id](MemberId other) {
        return other == kHere ? service_.has_value() : reaches(self, other);
      });
      if (service_ && reaches(id, kHere)) connected_.insert(id);
      for (auto& [to, message] : stranger->take_sends()) deliver(id, to, message);
    }
    if (service_) service_->tick(now);
    answer();
    admit();
  }

  void carry_out(MemberId id) {
    const auto at = members_.find(id);
    if (at == members_.end()) return;
    while (at->second->has_actions()) {
      for (const Action& action : at->second->take_actions()) {
        if (const auto* send = std::get_if<SendTo>(&action)) deliver(id, send->to, send->message);
        if (std::holds_alternative<StopFor>(action)) at->second->reported({}, now);
        if (const auto* view = std::get_if<Adopt>(&action)) note(view->view, id);
        if (const auto* out = std::get_if<Fenced>(&action)) {
          fenced_.insert(id);
          why_[id] = out->why;
        }
        if (const auto* view = std::get_if<Adopt>(&action)) pass(id, view->boundary);
      }
    }
  }

  // A view that begins otherwise ends the wait for the boundary, and the member waits anew.
  void pass(MemberId id, bool boundary) {
    const auto waits = at_boundary_.find(id);
    if (waits == at_boundary_.end()) return;
    waits->second = false;
    if (!boundary) return;
    at_boundary_.erase(waits);
    ++boundaries;
  }

  void note(const WorldView& view, MemberId member) {
    const auto [at, is_new] =
        history_.emplace(std::pair{world_of_[member], view.epoch.value}, view.present());
    if (!is_new && at->second != view.present()) ++forks;
  }

  void deliver(MemberId from, MemberId to, const Message& message) {
    if (!reaches(from, to)) return;
    if (to == kHere) {
      if (service_) {
        service_->on_message(from, message, now);
        answer();
      }
    } else if (const auto at = members_.find(to); at != members_.end()) {
      at->second->on_message(from, message, now);
      carry_out(to);
    } else if (const auto stranger = strangers_.find(to); stranger != strangers_.end()) {
      stranger->second->on_message(from, message);
    } else {
      answers_[to].push_back(message);
    }
  }

  void answer() {
    if (!service_ || answering_) return;
    answering_ = true;
    for (auto sends = service_->take_sends(); !sends.empty(); sends = service_->take_sends()) {
      for (auto& [to, message] : sends) {
        if (!muted_ && connected_.contains(to)) deliver(kHere, to, message);
      }
    }
    answering_ = false;
  }

  void admit() {
    for (auto at = strangers_.begin(); at != strangers_.end();) {
      if (at->second->state() != Joining::JoiningState::kAdmitted) {
        ++at;
        continue;
      }
      const Message decision = at->second->decision();
      MembershipSettings own = settings();
      own.elastic = true;
      world_of_[at->first] = decision.world;
      auto member = std::make_unique<Membership>("run", at->first, decision, own);
      note(decision.view, at->first);
      members_.emplace(at->first, std::move(member));
      at = strangers_.erase(at);
    }
  }

  Record* record_;
  Notary* notary_;
  std::uint64_t lives_ = 0;
  std::optional<CoordinatorService> service_;
  std::map<MemberId, std::unique_ptr<Membership>> members_;
  std::map<MemberId, std::unique_ptr<Joining>> strangers_;
  std::map<MemberId, CommId> world_of_;
  std::map<std::pair<CommId, std::uint32_t>, std::vector<MemberId>> history_;
  std::set<MemberId> connected_;
  std::set<MemberId> fenced_;
  std::map<MemberId, std::string> why_;
  std::map<MemberId, bool> at_boundary_;  // whether the coordinator has been told
  std::uint64_t lobby_ = 0;
  std::map<MemberId, std::vector<Message>> answers_;
  std::optional<std::set<std::uint64_t>> with_;
  bool answering_ = false;
  bool muted_ = false;
};

}  // namespace holdfast::ft::testing
