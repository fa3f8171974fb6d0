// How a member handles the messages of others.
#include <algorithm>

#include "base/planted.h"
#include "ft/membership.h"
#include "ft/view_change.h"

namespace holdfast::ft {
namespace {

// Heartbeats until a coordinator that serves another job of this name is asked again.
constexpr int kRefusedFor = 10;

bool awaits_reply(MessageKind kind) {
  switch (kind) {
    case MessageKind::kReport:
    case MessageKind::kSuspect:
    case MessageKind::kBoundary:
    case MessageKind::kPrepare:
    case MessageKind::kPropose:
    case MessageKind::kJoin:
    case MessageKind::kAsk:
    case MessageKind::kBehind:
    case MessageKind::kFenced: return true;
    default: return false;
  }
}

bool is_for_coordinator(MessageKind kind) {
  return kind == MessageKind::kReport || kind == MessageKind::kSuspect ||
         kind == MessageKind::kBoundary;
}

}  // namespace

bool Membership::may_say(MemberId from, Claim claim) const {
  Speaker speaker = Speaker::kStranger;
  if (is_led() && from == settings_.coordinator) speaker = Speaker::kCoordinator;
  if (view_.has(from)) speaker = Speaker::kMember;
  if (view_.has_outcast(from)) speaker = Speaker::kOutcast;
  if (own_ && own_->is_waiting(from)) speaker = Speaker::kWaiting;  // and wants in again
  if (is_planted(Planted::kBelieveAnybody) && claim == plain(MessageKind::kDecide)) return true;
  return ft::may_say(is_led() ? Listener::kLedMember : Listener::kMember, speaker, claim);
}

void Membership::on_message(MemberId from, const Message& message, Instant now) {
  if (message.world != world_) return;
  if (fenced_) {
    if (message.kind == MessageKind::kAbsent) on_absent(from, message, now);
    if (message.kind == MessageKind::kOut) on_closed(from, now);
    // A sender that takes this process for the coordinator or a member, or wants to fence it, waits
    // for an answer.
    if (awaits_reply(message.kind)) say_out(from);
    return;
  }
  if (message.kind == MessageKind::kOut) return on_out(from, message, now);
  if (message.kind == MessageKind::kAbsent) return on_absent(from, message, now);
  const bool stranger = from != settings_.coordinator && !view_.has(from);
  const bool knocks = message.kind == MessageKind::kJoin || message.kind == MessageKind::kReady;
  if (stranger && !knocks && message.epoch < view_.epoch) {
    // The sender missed its own exclusion.
    return tell_outcast(from);
  }
  if (message.kind == MessageKind::kFenced && is_shown_out(from, message)) {
    say_out(from);
    return be_fenced(message.text);
  }
  if (!may_say(from, claim_of(message))) return;
  const bool coordinates = coordinator() == self_ || own_;
  if (!stranger && message.epoch < view_.epoch && is_for_coordinator(message.kind) &&
      !coordinates) {
    // The sender has missed the decision with which another member became the coordinator.
    return act(SendTo{from, decision()});
  }
  if (from == settings_.coordinator && from != kNobody) {
    // A decision goes to all members, also to one whose greeting was not taken.
    greeted_ = greeted_ || message.kind != MessageKind::kDecide;
    refusal_.clear();
    if (message.kind == MessageKind::kRefused) on_refused(message, now);
  }
  switch (message.kind) {
    case MessageKind::kPrepare: return on_prepare(from, message, now);
    case MessageKind::kPropose: return on_propose(from, message, now);
    case MessageKind::kAccept:
      if (own_) to_own(from, message, now);
      return;
    case MessageKind::kDecide: return on_decide(from, message, now);
    case MessageKind::kAsk: return on_ask(from, message, now);
    case MessageKind::kFenced:
      if (message.epoch < view_.epoch) return;
      say_out(from);
      return be_fenced(message.text);
    case MessageKind::kLobby:
      lobby_version_ = std::max(lobby_version_, message.version);
      act(Expect{message.joiners});
      if (from != settings_.coordinator || message.epoch != view_.epoch) return;
      paused_ = message.boundary ? std::optional(now) : std::nullopt;
      if (!message.statement.empty()) statement_ = message.statement;
      promise(message.generation);
      if (message.generation == promised_ && greeted_with_ != promised_) greet(now);
      return;
    case MessageKind::kJoin: return on_join(from, message, now);
    case MessageKind::kReport: return on_report(from, message, now);
    case MessageKind::kSuspect: return on_suspect(from, message, now);
    case MessageKind::kBoundary:
      if (coordinates) to_own(from, message, now);
      return;
    case MessageKind::kReady:
    case MessageKind::kBehind:
      if (own_) to_own(from, message, now);
      return;
    default: return;
  }
}

void Membership::on_join(MemberId from, const Message& message, Instant now) {
  // The joiner may want the rank of a member that left.
  for (const MemberId m : std::set<MemberId>(left_)) on_closed(m, now);
  if (coordinator() == self_) return to_own(from, message, now);
  if (view_.has(from) && !is_suspect(from)) {
    // The decision that admitted the joiner was lost, and others may take it for the coordinator
    // already.
    return act(SendTo{from, decision()});
  }
  if (settings_.coordinator != kNobody) {
    Message refused = make(MessageKind::kRefused);
    refused.text = "this job has a coordinator: set option coordinator as its other ranks do";
    return act(SendTo{from, std::move(refused)});
  }
  Message redirect = make(MessageKind::kRedirect);
  const auto at = std::find(view_.members.begin(), view_.members.end(), coordinator());
  if (at == view_.members.end()) return;
  const auto rank = static_cast<std::size_t>(at - view_.members.begin());
  redirect.joiners.push_back({coordinator(), Rank{-1}, view_.cards[rank]});
  act(SendTo{from, std::move(redirect)});
}

void Membership::on_prepare(MemberId from, const Message& message, Instant now) {
  if ((message.epoch < view_.epoch || message.generation < promised_) && from != self_) {
    // A coordinator that is behind learns of the later view or ballot from any message.
    Message news = make(MessageKind::kSuspect);
    news.lost.assign(silent_.begin(), silent_.end());
    return act(SendTo{from, std::move(news)});
  }
  if (message.generation < promised_ || message.epoch != view_.epoch) return;
  promise(message.generation);
  unanswered_ = 0;
  if (own_ && from != self_ && own_->generation() < promised_) own_.reset();
  voted_.clear();
  for (const MemberId m : message.lost) {
    if (m == self_) return;
    voted_.insert(m);
    const auto& unproven = message.unproven;
    const bool proven = std::find(unproven.begin(), unproven.end(), m) == unproven.end();
    if (proven && (is_led() || believes(from, m))) dead_.insert(m);
  }
  if (!has_reported(from, now)) stop(now);
  if (stopped_ && settings_.coordinator == kNobody && coordinator() != from) {
    // The sender's ballot is the highest, so the report is for it, not for the process that this
    // member takes for the coordinator.
    Message m = make_report();
    m.unproven = message.unproven;
    m.version = 0;
    send_report(from, std::move(m), now);
  }
}

// The coordinator needs what this member has only referred to, or has missed a decision.
void Membership::on_ask(MemberId from, const Message& message, Instant now) {
  Message m = make(MessageKind::kSuspect);
  if (stopped_) {
    m = make_report();
    if (accepted_) m.accepted = encode(*accepted_);
  } else if (boundary_ && !stopping_) {
    m = make_boundary();
  } else {
    m.lost.assign(silent_.begin(), silent_.end());
  }
  if (message.epoch < view_.epoch) add_view(m);
  send(from, std::move(m), now);
}

void Membership::on_propose(MemberId from, const Message& message, Instant now) {
  const bool takes_any =
      is_planted(Planted::kIgnoreBallot) || (is_planted(Planted::kFreePrepare) && !accepted_);
  if ((message.generation < promised_ && !takes_any) || message.epoch != view_.epoch) return;
  Message proposal = message;
  if (!spell_out(proposal, view_)) return send(from, make(MessageKind::kBehind), now);
  promise(message.generation);
  if (own_ && from != self_ && own_->generation() < promised_) own_.reset();
  if (!is_planted(Planted::kForgetVote)) accepted_ = std::move(proposal);
  Message accept = make(MessageKind::kAccept);
  if (takes_any) accept.generation = message.generation;
  send(from, std::move(accept), now);
}

// A decision that all have accepted holds, whatever ballot it had.
void Membership::on_decide(MemberId from, const Message& message, Instant now) {
  promise(message.generation);
  if (own_ && own_->generation() < promised_) own_.reset();
  if (message.epoch <= view_.epoch) return;
  if (const auto decision = in_full(message)) return begin_view(*decision, now);
  send(from, make(MessageKind::kBehind), now);
}

// A decision may stand for what this member has accepted. nullopt: it has accepted something else,
// or nothing.
std::optional<Message> Membership::in_full(const Message& decision) const {
  if (decision.digest == 0) {
    Message whole = decision;
    const bool sound = spell_out(whole, view_) && whole.view.epoch == decision.epoch;
    return sound ? std::optional(std::move(whole)) : std::nullopt;
  }
  if (!accepted_ || accepted_->view.epoch != decision.epoch) return std::nullopt;
  if (digest_of_value(*accepted_) != decision.digest) return std::nullopt;
  Message whole = *accepted_;
  whole.statement = decision.statement;
  return whole;
}

void Membership::begin_view(const Message& message, Instant now) {
  lobby_version_ = std::max(lobby_version_, message.view.admitted);
  if (!message.view.has(self_)) {
    return be_fenced("view " + std::to_string(message.view.epoch.value) +
                     " is without this process");
  }
  view_ = message.view;
  reports_ = message.reports;
  at_boundary_ = message.boundary;
  statement_ = message.statement;
  accepted_.reset();
  stopping_ = false;
  stopped_.reset();
  unanswered_ = 0;
  stopped_for_.clear();
  boundary_.reset();
  voted_.clear();
  std::erase_if(dead_, [&](MemberId m) { return !view_.has(m); });
  std::erase_if(silent_, [&](MemberId m) { return !view_.has(m); });
  std::erase_if(left_, [&](MemberId m) { return !view_.has(m); });
  std::erase_if(absent_, [&](MemberId m) { return !view_.has_outcast(m); });
  next_retry_ = {Duration::max()};
  act(Adopt{view_, reports_, message.boundary});
  if (!dead_.empty()) stop(now);
  if (!silent_.empty()) complain(now);
  // A coordinator outside the view knows why somebody is out, and says so at once. Members say it
  // where that does not help.
  constexpr int kCoordinatorsBeats = 4;
  const bool waits = is_led() && !awaits_outcasts_ && !at_large().empty();
  if (waits) {
    next_ask_ = now + settings_.heartbeat * kCoordinatorsBeats;
  } else {
    look_at_outcasts(now);
  }
}

Message Membership::decision() const {
  Message m = make(MessageKind::kDecide);
  add_view(m);
  return m;
}

void Membership::say_out(MemberId to) {
  Message m = make(MessageKind::kOut);
  if (!view_.has(to)) {
    m.unproven = {to};
    show_view(m);
  }
  act(SendTo{to, std::move(m)});
}

// What shows that the view was decided; where its members agreed by themselves, each may sign.
const Bytes& Membership::attest() {
  if (statement_.empty()) statement_ = statement_for(settings_.notary, name_, decision());
  return statement_;
}

// For one who is in the view no more.
void Membership::show_view(Message& m) {
  if (attest().empty()) return;
  m.view = members_of(view_);
  m.statement = statement_;
}

// Whoever says it: the view has been signed. Why:
// docs/decisions/0164-a-view-is-signed-by-who-decides-it.md
bool Membership::is_shown_out(MemberId from, const Message& message) const {
  const bool later = message.view.epoch > view_.epoch || is_planted(Planted::kOldStatement);
  return later && !message.view.has(self_) && may_say(from, Claim::kShownOut) &&
         shows_members(settings_.notary, name_, message);
}

// Those of a coordinator outside the view take it from others only if it is signed.
void Membership::tell_outcast(MemberId outcast) {
  Message fenced = make(MessageKind::kFenced);
  show_view(fenced);
  if (is_led() && fenced.statement.empty()) return;
  fenced.text = "voted out: view " + std::to_string(view_.epoch.value) +
                " of the group does not have this process any more";
  act(SendTo{outcast, std::move(fenced)});
}

void Membership::be_fenced(std::string why) {
  fenced_ = true;
  awaits_outcasts_ = false;
  act(Fenced{std::move(why)});
}

// The sender has left, or was voted out. Its last view may be one that this process is not in.
void Membership::on_out(MemberId from, const Message& message, Instant now) {
  const auto& without = message.unproven;
  const bool is_without = std::find(without.begin(), without.end(), self_) != without.end() &&
                          (may_say(from, Claim::kYouAreOut) || is_shown_out(from, message));
  if (!is_without || message.epoch <= view_.epoch) return on_closed(from, now);
  be_fenced("view " + std::to_string(message.epoch.value) + " is without this process");
}

void Membership::on_absent(MemberId from, const Message& message, Instant now) {
  if (!may_say(from, claim_of(message))) return;
  for (const MemberId member : message.lost) {
    if (is_at_large(member)) on_closed(member, now);
  }
  const bool coordinates = !fenced_ && (coordinator() == self_ || own_);
  if (!message.unproven.empty() && coordinates) to_own(from, message, now);
}

// The coordinator does not know this world yet, or has another world of its name, which may end.
void Membership::on_refused(const Message& message, Instant now) {
  if (message.text.empty()) return greet(now);
  refusal_ = message.text;
  next_greeting_ = now + settings_.heartbeat * kRefusedFor;
  next_retry_ = std::min(next_retry_, next_greeting_);
}

// Whether the member's word is proof that the other one's process has ended. A coordinator among
// the members is one of them: it may decide without the other one, whatever this process believes.
bool Membership::believes(MemberId member, MemberId ended) const {
  return member == self_ || is_witness(view_, settings_.host_of, member, ended);
}

// A loss that another member has proof of is proven here, too.
void Membership::on_report(MemberId from, const Message& message, Instant now) {
  for (const auto& [m, proven] : losses_of(message, view_)) {
    const bool news = view_.has(m) && m != self_ && !dead_.contains(m);
    if (proven && news && believes(from, m)) on_closed(m, now);
  }
  if (coordinator() == self_ || own_) to_own(from, message, now);
}

void Membership::on_suspect(MemberId from, const Message& message, Instant now) {
  if (coordinator() == self_ || own_) return to_own(from, message, now);
  // The sender does not hear the coordinator, which lives: passes the complaint on to it.
  if (message.origin != kNobody) return;
  Message passed = message;
  passed.origin = from;
  act(SendTo{coordinator(), std::move(passed)});
}

}  // namespace holdfast::ft
