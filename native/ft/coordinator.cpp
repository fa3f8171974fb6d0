#include "ft/coordinator.h"

#include <algorithm>

#include "base/planted.h"
#include "ft/view_change.h"

namespace holdfast::ft {
void Coordinator::begin(WorldView view, Reports reports, bool boundary, bool established) {
  established_ = established;
  last_at_boundary_ = boundary;
  view_ = std::move(view);
  last_reports_ = std::move(reports);
  take_outcasts();
  keep_groups(last_reports_);
}

Message Coordinator::make(MessageKind kind) const {
  Message m;
  m.kind = kind;
  m.world = world_;
  m.generation = generation_;
  m.epoch = view_.epoch;
  return m;
}

std::vector<MemberId> Coordinator::lost() const {
  std::vector<MemberId> result;
  for (const auto& [member, proven] : lost_) result.push_back(member);
  return result;
}

std::vector<MemberId> Coordinator::staying() const {
  std::vector<MemberId> result = view_.present();
  std::erase_if(result, [&](MemberId m) { return lost_.contains(m); });
  return result;
}

void Coordinator::on_message(MemberId from, const Message& message, Instant now) {
  if (message.world != world_) return;
  note_heard(from);
  const bool news = has_news(message);
  if (!may_say(from, message, news)) return object(from, message);
  if (message.kind == MessageKind::kJoin) return on_join(from, message, now);
  if (message.kind == MessageKind::kReady) return on_ready(from, message, now);
  if (message.kind == MessageKind::kOut) return on_closed(from, now);
  if (message.kind == MessageKind::kAbsent) return answer_absent(from, message);
  const auto waiting = lobby_.find(from);
  if (message.kind == MessageKind::kBehind && waiting != lobby_.end()) {
    waiting->second.told.reset();
    return tell_waiting(waiting->second);
  }
  if (message.epoch > std::max(view_.epoch, news ? message.view.epoch : Epoch{})) {
    return ask_for_view(from, now);
  }
  if (news) learn(message);
  note_heard(from);
  if (!view_.has(from)) return;
  if (is_excluded(from)) {
    Message fenced = make(MessageKind::kFenced);
    fenced.epoch = recorded_->epoch;
    fenced.text = "voted out in view " + std::to_string(recorded_->epoch.value) +
                  ", as the coordinator's record says";
    return send(from, std::move(fenced));
  }
  outranked_by_ = std::max(outranked_by_, message.generation);
  note_promise(from, message);
  // Where those that stay are not heard, one that speaks may decide without them.
  if (!blocked_.empty() || is_deaf()) take_back(from, now);
  if (message.kind == MessageKind::kBehind) return answer_behind(from, message);
  if (message.epoch < view_.epoch) {
    send_decided(from, message.epoch);
    return on_relinked(from);
  }
  if (message.kind == MessageKind::kGreet) {
    on_greet(from);
    on_relinked(from);
  }
  if (message.kind == MessageKind::kReport) on_report(from, message, now);
  if (message.kind == MessageKind::kSuspect) on_suspect(from, message, now);
  if (message.kind == MessageKind::kBoundary) on_boundary(from, message, now);
  if (message.kind == MessageKind::kAccept) on_accept(from, message, now);
}

// Strangers' ids are not kept: their number has no limit.
void Coordinator::note_heard(MemberId member) {
  if (view_.has(member) || lobby_.contains(member)) heard_.insert(member);
}

// A coordinator that was started anew, or took over, knows only what members tell it.
void Coordinator::learn(const Message& message) {
  view_ = message.view;
  last_reports_ = message.reports;
  last_at_boundary_ = message.boundary;
  // Anew: the secret may have been replaced since.
  statement_ = statement_for(settings_.notary, name_, decided());
  last_change_.reset();
  keep_groups(last_reports_);
  asked_ = false;
  proposal_.reset();
  forget_reports();
  boundaries_.clear();
  // What was signed may be an old view, whose members say what they like of later ones.
  if (settings_.notary != nullptr) complaints_.clear(), lost_.clear();
  std::erase_if(lost_, [&](const auto& entry) { return !view_.has(entry.first); });
  // Processes in the lobby may have been admitted by the coordinator before this one.
  std::erase_if(lobby_, [&](const auto& entry) { return view_.has(entry.first); });
  promised_by_.clear();
  tie_since_ = rival_ = {};
  if (read_record()) exclude();
  take_outcasts();
  const Message said = named_decision();
  for (const MemberId member : view_.present()) send(member, said);
}

void Coordinator::on_report(MemberId from, const Message& message, Instant now) {
  std::vector<MemberId> lost;
  for (const auto& [m, proven] : losses_of(message, view_)) {
    lost.push_back(m);
    // A loss without proof repeats what was prepared, which may be out of date.
    const bool believed = from == settings_.self || is_witness(view_, settings_.host_of, from, m);
    if (proven && believed && view_.has(m)) lose(m, true, now);
  }
  auto said = take_body(from, message);
  // A report for another coordinator's ballot is news, but no promise.
  if (message.generation == generation_ || is_planted(Planted::kStaleReport)) {
    if (!said) return ask(from);
    Report report{std::move(lost), std::move(*said), {}};
    if (!message.accepted.empty()) {
      auto accepted = decode(message.accepted);
      // Without its accepted proposal the report would be no promise.
      if (!accepted.is_ok()) return;
      if (!spell_out(accepted.value(), view_)) return ask(from);
      report.accepted = take_accepted(accepted.value());
    }
    reports_[from] = std::move(report);
  } else if (message.generation > generation_) {
    // The member has stopped, and goes on in the next view only: this coordinator must ask for one.
    stopped_elsewhere_ = true;
  } else if (!asked_) {
    // The member has stopped for a coordinator before this one.
    prepare(now);
  }
  try_decide(now);
}

void Coordinator::on_closed(MemberId member, Instant now) {
  on_absent(member);
  if (lobby_.erase(member) > 0) tell_lobby(false);
  if (!view_.has(member)) return;
  lose(member, true, now);
  try_decide(now);
}

void Coordinator::on_silent(MemberId member, Instant now) {
  if (lobby_.erase(member) > 0) tell_lobby(false);
  accused_.erase(member);
  if (!view_.has(member) || lost_.contains(member)) return;
  lose(member, false, now);
  try_decide(now);
}

void Coordinator::lose(MemberId member, bool proven, Instant now) {
  const auto [at, is_new] = lost_.emplace(member, proven);
  at->second = at->second || proven;
  if (!is_new) return;
  // A proposal under this ballot must not change.
  if (proposal_ && !is_planted(Planted::kKeepBallot)) return raise_ballot(now);
  proposal_.reset();
  prepare(now);
}

// While the view cannot be decided without it, a silent member that speaks again is welcome.
void Coordinator::take_back(MemberId member, Instant now) {
  if (is_planted(Planted::kNeverTakeBack)) return;
  const auto at = lost_.find(member);
  if (at == lost_.end() || at->second || is_excluded(member)) return;
  // Who was kicked is welcome only where the others are too few without it.
  if (is_kicked(member)) {
    if (may_decide(vote_of(staying()))) return;
    orders_.out.erase(member);
  }
  lost_.erase(at);
  accused_.erase(member);
  complaints_.erase(member);
  for (auto& [accuser, silent] : complaints_) silent.erase(member);
  blocked_.clear();
  if (proposal_) return raise_ballot(now);
  prepare(now);
}

void Coordinator::raise_generation() {
  const std::uint64_t count = std::max(outranked_by_, generation_).value >> 16;
  generation_ = {(count + 1) << 16 | (generation_.value & 0xffff)};
  established_ = stopped_elsewhere_ = false;
  promised_by_.clear();
}

// Begins again under a ballot above all ballots that it knows of.
void Coordinator::raise_ballot(Instant now) {
  raise_generation();
  if (proposal_) withdrawn_ = take_accepted(*std::exchange(proposal_, std::nullopt));
  reports_.clear();
  prepare(now);
}

bool Coordinator::has_reported(MemberId member, const std::vector<MemberId>& lost) const {
  const auto report = reports_.find(member);
  return report != reports_.end() && report->second.lost == lost;
}

void Coordinator::prepare(Instant now) {
  asked_ = true;
  asked_for_.clear();
  const Message m = make_prepare();
  for (const MemberId member : staying()) {
    if (!has_reported(member, m.lost)) send(member, m);
  }
  next_retry_ = now + retry_time();
}

// Grows with the rank, so that of two coordinators that outrank each other the lower rank gets a
// round to itself.
Duration Coordinator::retry_time() const {
  return settings_.heartbeat + settings_.heartbeat / 8 * static_cast<int>(generation_.value % 8);
}

void Coordinator::tick(Instant now) {
  look_at_orders(now);
  const bool complained = weigh_complaints(now);
  if (drop_unheard(now) || complained) try_decide(now);
  if (now < next_retry_) return;
  next_retry_ = now + retry_time();
  asked_for_.clear();
  take_back_heard(now);
  if (!blocked_.empty() && !is_recorded())
    record_read_ = false;  // another coordinator may have written it
  const bool wanted = is_at_work() || !boundaries_.empty() || stopped_elsewhere_;
  if (outranked_by_ > generation_ && wanted) {
    return raise_ballot(now);
  }
  // Messages may have been lost, or a quorum was missing: try again.
  if (proposal_) {
    const Message again = by_difference(*proposal_, view_);
    for (const MemberId member : staying()) {
      if (!accepted_by_.contains(member)) send(member, again);
    }
    try_commit(now);
  } else if (!lost_.empty() || !reports_.empty()) {
    prepare(now);
    try_decide(now);
  }
  refuse_the_late(now);
  tell_outcasts();
  const bool asks = !orders_.draining.empty() || orders_.paused_until;
  if (!lobby_.empty() || asks) tell_lobby(false);
}

void Coordinator::try_decide(Instant now) {
  if (proposal_) return;
  if (lost_.empty() && reports_.empty()) return try_admit(now);
  const std::vector<MemberId> gone = lost();
  const Accepted* accepted = nullptr;
  MemberId acceptor = kNobody;
  const std::vector<MemberId> all = staying();
  const bool too_few = reports_.size() < all.size();
  std::vector<std::pair<MemberId, const SaidGroups*>> said;
  for (const MemberId member : all) {
    const auto report = reports_.find(member);
    if (too_few || report == reports_.end() || report->second.lost != gone) {
      // No member is lost any more, but some have stopped: all stop, and go on in the next view.
      // Each is asked once here, and again by tick(): reports must not put that off.
      if (gone.empty() && !asked_) prepare(now);
      return;
    }
    said.emplace_back(member, &report->second.said);
    const auto& value = report->second.accepted;
    if (value && (accepted == nullptr || accepted->ballot < value->ballot)) {
      accepted = &*value;
      acceptor = member;
    }
  }
  if (!allowed(now)) return;
  const Message* value = accepted != nullptr ? value_of(*accepted) : nullptr;
  if (accepted != nullptr && value == nullptr) return ask_once(acceptor, accepted->digest);
  if (is_behind()) return follow_record(value, now);
  if (value != nullptr) return propose(*value, now);
  if (know_groups(said)) decide(now);
}

void Coordinator::decide(Instant now) {
  Message next = make(MessageKind::kPropose);
  next.view = next_view();
  for (std::size_t r = 0; r < next.view.members.size(); ++r) {
    const MemberId member = next.view.members[r];
    if (lost_.contains(member)) {
      Outcast outcast{member, {static_cast<std::int32_t>(r)}, next.view.cards[r]};
      next.view.members[r] = kNobody;
      if (!lost_.at(member)) cast_out(next.view, std::move(outcast));
    } else if (member != kNobody) {
      const SaidGroups& said = reports_[member].said;
      next.reports.add(member, known_groups_[said.groups], said.ops);
    }
  }
  propose(std::move(next), now);
}

void Coordinator::propose(Message value, Instant now) {
  value.kind = MessageKind::kPropose;
  value.generation = generation_;
  value.epoch = view_.epoch;
  accepted_by_.clear();
  const Message difference = by_difference(value, view_);
  for (const MemberId member : staying()) send(member, difference);
  proposal_ = std::move(value);
  next_retry_ = now + retry_time();
  try_commit(now);
}

void Coordinator::on_accept(MemberId from, const Message& message, Instant now) {
  if (!proposal_ || message.generation != generation_) return;
  accepted_by_.insert(from);
  try_commit(now);
}

void Coordinator::try_commit(Instant now) {
  const std::vector<MemberId> all = staying();
  const bool accepted =
      accepted_by_.size() >= all.size() &&
      std::all_of(all.begin(), all.end(), [&](MemberId m) { return accepted_by_.contains(m); });
  // The first view of a world has no members before it.
  if (!accepted || (view_.epoch.value > 0 && !allowed(now))) return;
  if (!is_planted(Planted::kUnrecorded) && !write_record(proposal_->view)) {
    if (is_behind()) raise_ballot(now);
    return;
  }
  publish(*std::exchange(proposal_, std::nullopt), now);
}

void Coordinator::publish(Message value, Instant now) {
  established_ = true;
  stopped_elsewhere_ = asked_ = false;
  std::vector<MemberId> audience = view_.present();
  for (const MemberId m : value.view.present()) {
    if (!view_.has(m)) audience.push_back(m);
  }
  const WorldView before = std::exchange(view_, std::move(value.view));
  last_reports_ = std::move(value.reports);
  last_at_boundary_ = value.boundary;
  keep_groups(last_reports_);
  statement_ = statement_for(settings_.notary, name_, decided());
  const Message whole = decided();
  const Message change = by_difference(whole, before);
  last_change_ = change;
  tie_since_ = generation_;
  rival_ = {};
  promised_by_.clear();
  for (const auto& [member, proven] : lost_) {
    if (proven && view_.has_outcast(member)) absent_.insert(member);
  }
  take_outcasts();
  const Message named = named_decision();
  const auto said_to = [&](MemberId member) -> const Message& {
    const auto waits = lobby_.find(member);
    if (waits != lobby_.end()) return waits->second.told == before.epoch ? change : whole;
    return accepted_by_.contains(member) ? named : change;
  };
  for (const MemberId member : audience) {
    const auto lost = lost_.find(member);
    if (lost != lost_.end() && lost->second) continue;
    if (view_.has(member)) send(member, said_to(member));
    if (outcasts_.contains(member)) fence(member, outcasts_.at(member));
  }
  // Complaints begin anew, and losses by complaint end. A proposal that was accepted before may
  // have kept such a member in the view; it has no reason to speak, so take_back() would never be
  // called.
  std::erase_if(lost_, [&](const auto& entry) {
    const auto& [member, proven] = entry;
    return !view_.has(member) || (!proven && accused_.contains(member) && !is_excluded(member));
  });
  accused_.clear();
  complaints_.clear();
  std::erase_if(heard_, [&](MemberId id) { return !view_.has(id) && !lobby_.contains(id); });
  std::erase_if(unheard_, [&](const auto& entry) { return !view_.has(entry.first); });
  forget_reports();
  boundaries_.clear();
  blocked_.clear();
  std::erase_if(lobby_, [&](const auto& entry) { return view_.has(entry.first); });
  forget_orders();
  if (!lost_.empty()) prepare(now);
}

}  // namespace holdfast::ft
