// Which members a coordinator takes for silent, by what it hears itself and by what members say of
// each other; and how it tells members that were voted out.
#include <algorithm>

#include "base/planted.h"
#include "ft/coordinator.h"

namespace holdfast::ft {
namespace {

// Heartbeats in which connections come back after an outage of the network: TCP doubles the time
// between its tries.
constexpr int kComeBack = 10;
// Heartbeats after which all members are found to be silent when this process is cut off.
constexpr int kAlone = 4;

}  // namespace

void Coordinator::on_suspect(MemberId from, const Message& message, Instant now) {
  const MemberId accuser = message.origin == kNobody ? from : message.origin;
  if (settings_.outside && message.lost == std::vector<MemberId>{from}) {
    // The member leaves.
    lose(from, true, now);
    return try_decide(now);
  }
  if (!view_.has(accuser)) return;
  auto& silent = complaints_[accuser];
  std::erase_if(silent, [&](const auto& entry) {
    return std::find(message.lost.begin(), message.lost.end(), entry.first) == message.lost.end();
  });
  for (const MemberId m : message.lost) {
    if (view_.has(m) && m != accuser) silent.emplace(m, now);
  }
  if (weigh_complaints(now)) try_decide(now);
}

// A coordinator that was started anew may never have heard of a member.
bool Coordinator::is_unheard(MemberId member) const {
  return unheard_.contains(member) || (settings_.outside && !heard_.contains(member));
}

// Whether a complaint is a quarrel that goes on: neither hears the other, or this process does not
// hear the accused.
bool Coordinator::is_quarrel(MemberId accuser, MemberId accused, Instant since, Instant now) const {
  if (lost_.contains(accuser) || lost_.contains(accused)) return false;
  // With a secret that is all that is waited for: both have heard nothing for `grace`.
  if (settings_.host_of && unheard_.contains(accused)) return true;
  if (now - since < settings_.heartbeat) return false;
  if (is_unheard(accused)) return true;
  const auto answer = complaints_.find(accused);
  return answer != complaints_.end() && answer->second.contains(accuser);
}

// Of two members that do not hear each other one has to go, though this process may hear both: the
// one that is party to more such quarrels; of equals, the later in the view.
bool Coordinator::weigh_complaints(Instant now) {
  if (is_planted(Planted::kNoWeighing)) return false;
  std::map<MemberId, int> quarrels;
  for (const auto& [accuser, silent] : complaints_) {
    for (const auto& [accused, since] : silent) {
      if (!is_quarrel(accuser, accused, since, now)) continue;
      // If one of the two is not heard here either, only that one counts.
      const bool one = is_unheard(accuser) != is_unheard(accused);
      for (const MemberId m : {accuser, accused}) {
        if (!one || is_unheard(m)) ++quarrels[m];
      }
    }
  }
  MemberId worst = kNobody;
  for (const MemberId m : view_.present()) {
    if (quarrels.contains(m) && (worst == kNobody || quarrels[m] >= quarrels[worst])) worst = m;
  }
  if (worst == kNobody) return false;
  accused_.insert(worst);
  lose(worst, false, now);
  return true;
}

void Coordinator::fence(MemberId member, const std::string& why) {
  Message fenced = make(MessageKind::kFenced);
  fenced.text = why;
  send(member, std::move(fenced));
}

// The current view's successor, before any member leaves or joins.
WorldView Coordinator::next_view() const {
  WorldView next = view_;
  ++next.epoch.value;
  std::erase_if(next.outcasts, [&](const Outcast& o) { return absent_.contains(o.member); });
  return next;
}

void Coordinator::cast_out(WorldView& view, Outcast outcast) {
  if (view.outcasts.size() >= kMaxRanks) view.outcasts.erase(view.outcasts.begin());
  view.outcasts.push_back(std::move(outcast));
}

void Coordinator::take_outcasts() {
  const auto is_over = [&](MemberId member) { return !view_.has_outcast(member); };
  std::erase_if(absent_, is_over);
  std::erase_if(outcasts_, [&](const auto& entry) { return is_over(entry.first); });
  for (const Outcast& outcast : view_.outcasts) {
    if (absent_.contains(outcast.member)) continue;
    const auto ordered = orders_.out.find(outcast.member);
    outcasts_.emplace(outcast.member, ordered != orders_.out.end()
                                          ? ordered->second
                                          : "voted out by view " +
                                                std::to_string(view_.epoch.value) +
                                                ": it was not heard of for too long");
  }
}

// The outcast has answered, or its process has ended: members that leave wait for that.
void Coordinator::on_absent(MemberId outcast) {
  outcasts_.erase(outcast);
  if (!view_.has_outcast(outcast) || !absent_.insert(outcast).second) return;
  for (const MemberId member : view_.present()) tell_absent(member, {outcast});
}

// Answers a member, or a process that has left since.
void Coordinator::answer_absent(MemberId from, const Message& asked) {
  if (asked.epoch > view_.epoch) return;
  std::vector<MemberId> absent;
  for (const MemberId member : asked.unproven) {
    if (absent_.contains(member) || !view_.has_outcast(member)) absent.push_back(member);
  }
  if (!absent.empty()) tell_absent(from, std::move(absent));
}

void Coordinator::tell_absent(MemberId member, std::vector<MemberId> absent) {
  Message m = make(MessageKind::kAbsent);
  m.lost = std::move(absent);
  send(member, std::move(m));
}

void Coordinator::tell_outcasts() {
  for (const auto& [member, why] : outcasts_) fence(member, why);
}

void Coordinator::on_unheard(MemberId member, Instant now) {
  on_strayed(member);
  if (!view_.has(member)) return;
  unheard_.emplace(member, now);
  const bool complained = settings_.host_of && weigh_complaints(now);
  if (drop_unheard(now) || complained) try_decide(now);
}

// Members that are lost without proof and heard again may have no reason to speak, so that no
// message of theirs takes them back.
void Coordinator::take_back_heard(Instant now) {
  if (blocked_.empty() || !settings_.outside) return;
  for (const MemberId member : lost()) {
    if (!is_unheard(member)) take_back(member, now);
  }
}

void Coordinator::on_strayed(MemberId member) {
  if (lobby_.erase(member) > 0) tell_lobby(false);
}

// Drops members that have not been heard for long where a decision is needed, also by processes in
// the lobby: a decision that needs members that do not hear it would never come.
bool Coordinator::drop_unheard(Instant now) {
  // Those that have never called a coordinator which was started anew may be on their way.
  if (settings_.outside && is_at_work()) {
    const Duration time = settings_.host_of ? settings_.silence : settings_.heartbeat * kComeBack;
    for (const MemberId member : view_.present()) {
      if (heard_.contains(member) || lost_.contains(member)) continue;
      unheard_.emplace(member, now + (time - settings_.heartbeat * kAlone));
    }
  }
  // A process that hears no member is cut off itself.
  if (is_deaf()) deaf_until_ = now + settings_.heartbeat * kComeBack;
  if (now < deaf_until_) return false;
  if (unheard_.empty() || (!is_at_work() && boundaries_.empty() && lobby_.empty())) return false;
  bool dropped = false;
  for (const auto& [member, since] : std::map<MemberId, Instant>(unheard_)) {
    if (!view_.has(member) || lost_.contains(member)) continue;
    if (now - since < settings_.heartbeat * kAlone) continue;
    lose(member, false, now);
    dropped = true;
  }
  return dropped;
}

}  // namespace holdfast::ft
