// The lobby of the coordinator: which processes wait, which may join, and when.
#include <algorithm>

#include "base/planted.h"
#include "ft/coordinator.h"
#include "ft/view_change.h"

namespace holdfast::ft {

void Coordinator::on_join(MemberId from, const Message& message, Instant now) {
  Message refused = make(MessageKind::kRefused);
  if (message.joiners.size() != 1 || message.joiners[0].member != from) return;
  if (message.text != name_) {
    refused.text =
        "this coordinator serves the group \"" + name_ + "\", not \"" + message.text + "\"";
    return send(from, std::move(refused));
  }
  if (lobby_.contains(from)) return;  // asked twice
  // The process is admitted: the decision has crossed its question, or the coordinator that decided
  // died before it said so. A member that has left may join again.
  if (view_.has(from) && !lost_.contains(from)) return send(from, decided());
  if (const auto out = orders_.out.find(from); out != orders_.out.end()) {
    refused.text = out->second;
    return send(from, std::move(refused));
  }
  if (view_.members.size() + lobby_.size() >= kMaxRanks && message.joiners[0].wanted.value < 0) {
    refused.text = "the group is full (" + std::to_string(kMaxRanks) + " ranks)";
    return send(from, std::move(refused));
  }
  if (lobby_.size() >= kMaxLobby) {
    refused.text = "the lobby is full (" + std::to_string(kMaxLobby) + " processes wait)";
    return send(from, std::move(refused));
  }
  WaitingJoiner waiting{message.joiners[0], now, ++arrivals_, 0};
  if (const auto why = objection(waiting, now)) {
    refused.text = *why;
    return send(from, std::move(refused));
  }
  lobby_.emplace(from, std::move(waiting));
  tell_lobby(false);
}

// Why the joiner cannot have what it wants. A rank that is taken may be vacant soon: its holder may
// be dead, and no process have noticed yet.
std::optional<std::string> Coordinator::objection(const WaitingJoiner& waiting, Instant now) const {
  const Rank wanted = waiting.joiner.wanted;
  if (wanted.value < 0 && settings_.elastic) return std::nullopt;
  if (wanted.value >= static_cast<std::int32_t>(kMaxRanks)) {
    return "rank " + std::to_string(wanted.value) + "; accepted: below " +
           std::to_string(kMaxRanks);
  }
  const auto size = static_cast<std::int32_t>(view_.members.size());
  if (view_.epoch.value > 0 && !settings_.elastic && (wanted.value < 0 || wanted.value >= size)) {
    return "rank " + std::to_string(wanted.value) + " is not one of this group's, which are 0 to " +
           std::to_string(size - 1);
  }
  const Instant since = std::max(waiting.since, settings_.decides_from);
  const bool patient = now - since < settings_.silence + settings_.heartbeat * 2;
  if (wanted.value < 0 || wanted.value >= size || patient) return std::nullopt;
  if (view_.members[static_cast<std::size_t>(wanted.value)] == kNobody) return std::nullopt;
  return "rank " + std::to_string(wanted.value) + " is held by a live process";
}

void Coordinator::refuse_the_late(Instant now) {
  for (auto at = lobby_.begin(); at != lobby_.end();) {
    const auto why = objection(at->second, now);
    if (!why) {
      ++at;
      continue;
    }
    Message refused = make(MessageKind::kRefused);
    refused.text = *why;
    send(at->first, std::move(refused));
    at = lobby_.erase(at);
  }
}

// Tells joiners which processes they must be connected to, and members which processes wait and,
// once one may be admitted, a version that their next step boundary sees.
void Coordinator::tell_lobby(bool newly_ready) {
  if (newly_ready) {
    version_ = std::max(version_ + 1, generation_.value << 16);
  }
  Message m = make(MessageKind::kLobby);
  m.version = version_;
  m.text = blocked();
  m.boundary = orders_.paused_until.has_value();
  for (const auto& [member, waiting] : lobby_) m.joiners.push_back(waiting.joiner);
  for (const MemberId member : view_.present()) send(member, m);
  for (auto& [member, waiting] : lobby_) tell_waiting(waiting);
}

// The member is heard: it is sent the lobby's version, and the ballot that it is to promise.
void Coordinator::on_greet(MemberId from) {
  if (settings_.outside && outranked_by_ > generation_ && !is_at_work()) {
    raise_generation();
    for (const MemberId member : view_.present()) {
      if (member != from) on_greet(member);
    }
  }
  Message m = make(MessageKind::kLobby);
  m.version = version_;
  m.boundary = orders_.paused_until.has_value();
  m.statement = statement_;
  send(from, std::move(m));
}

// A joiner is sent a view once; after that the digest stands for it.
void Coordinator::tell_waiting(WaitingJoiner& waiting) {
  Message m = make(MessageKind::kLobby);
  m.version = arrivals_;
  m.text = lobby_reason();
  for (const auto& [member, other] : lobby_) m.joiners.push_back(other.joiner);
  if (waiting.told == view_.epoch) {
    m.digest = digest_of(view_);
  } else {
    m.view = view_;
  }
  waiting.told = view_.epoch;
  send(waiting.joiner.member, std::move(m));
}

void Coordinator::on_ready(MemberId from, const Message& message, Instant now) {
  const auto at = lobby_.find(from);
  if (at == lobby_.end()) return;
  const bool first = at->second.ready == 0;
  if (message.epoch == view_.epoch) at->second.ready = message.version;
  if (view_.epoch.value == 0 && try_first_view(now)) return;
  if (first && at->second.ready > 0) tell_lobby(true);
}

// Joiners that are connected to all members and to each other, and whose rank is free, in the order
// in which they came.
std::vector<Coordinator::WaitingJoiner> Coordinator::admissible() const {
  std::vector<WaitingJoiner> queue;
  for (const auto& [member, waiting] : lobby_) queue.push_back(waiting);
  std::sort(queue.begin(), queue.end(),
            [](const WaitingJoiner& a, const WaitingJoiner& b) { return a.joined < b.joined; });
  std::vector<WaitingJoiner> chosen;
  std::set<Rank> taken;
  for (const WaitingJoiner& w : queue) {
    const bool meets_all =
        std::all_of(chosen.begin(), chosen.end(), [&](const WaitingJoiner& other) {
          return other.ready >= w.joined && w.ready >= other.joined;
        });
    const auto rank = static_cast<std::size_t>(w.joiner.wanted.value);
    const bool wants = w.joiner.wanted.value >= 0;
    const bool free = !wants || (!taken.contains(w.joiner.wanted) &&
                                 (rank >= view_.members.size() || view_.members[rank] == kNobody));
    const bool connected =
        (w.ready >= w.joined && meets_all) || is_planted(Planted::kAdmitUnconnected);
    if (!connected || !free) continue;
    chosen.push_back(w);
    if (wants) taken.insert(w.joiner.wanted);
  }
  return chosen;
}

void Coordinator::seat(WorldView& view, const std::vector<WaitingJoiner>& joiners) const {
  for (const bool wanting : {true, false}) {
    for (const WaitingJoiner& w : joiners) {
      if ((w.joiner.wanted.value >= 0) != wanting) continue;
      const auto vacant = std::find(view.members.begin(), view.members.end(), kNobody);
      std::size_t rank = wanting ? static_cast<std::size_t>(w.joiner.wanted.value)
                                 : static_cast<std::size_t>(vacant - view.members.begin());
      if (rank >= view.members.size()) {
        view.members.resize(rank + 1, kNobody);
        view.cards.resize(rank + 1);
      }
      view.members[rank] = w.joiner.member;
      view.cards[rank] = w.joiner.card;
    }
  }
  std::erase_if(view.outcasts, [&](const Outcast& outcast) { return view.has(outcast.member); });
  if (!joiners.empty()) view.forget_vacated();
}

void Coordinator::on_boundary(MemberId from, const Message& message, Instant now) {
  boundaries_[from] = {message.version, take_said(message)};
  try_admit(now);
}

// All members are at the boundary: the next view begins there, with the joiners that are ready. The
// view begins even when no joiner is left, for the members wait for it.
void Coordinator::try_admit(Instant now) {
  const std::vector<MemberId> members = view_.present();
  if (proposal_ || members.empty() || !lost_.empty() || !reports_.empty()) return;
  if (boundaries_.size() < members.size() || orders_.paused_until) return;
  std::vector<std::pair<MemberId, const SaidGroups*>> said;
  for (const MemberId member : members) {
    const auto at = boundaries_.find(member);
    if (at == boundaries_.end()) return;
    said.emplace_back(member, &at->second.second);
  }
  // No member has promised this ballot yet: a view without changes comes first.
  if (!established_) return prepare(now);
  if (!know_groups(said)) return;
  Message next = make(MessageKind::kPropose);
  for (const auto& [member, its] : said) {
    if (orders_.draining.contains(member)) continue;
    next.reports.add(member, known_groups_[its->groups], its->ops);
  }
  next.view = next_view();
  next.boundary = true;
  next.view.admitted = version_;
  const auto joiners = admissible();
  seat(next.view, joiners);
  vacate(next.view);
  if (!joiners.empty()) next.view.forget_vacated();
  propose(std::move(next), now);
}

// A world without members begins when enough strangers are connected to each other.
bool Coordinator::try_first_view(Instant now) {
  const std::vector<WaitingJoiner> joiners = admissible();
  if (view_.epoch.value > 0 || !settings_.elastic || joiners.size() < settings_.min_peers ||
      is_held())
    return false;
  Message next = make(MessageKind::kPropose);
  next.view.epoch = {1};
  next.view.admitted = version_;
  next.boundary = true;
  seat(next.view, joiners);
  propose(std::move(next), now);
  return true;
}

}  // namespace holdfast::ft
