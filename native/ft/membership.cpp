#include "ft/membership.h"

#include <algorithm>

#include "base/planted.h"
#include "ft/view_change.h"

namespace holdfast::ft {
namespace {

// Reports that may stay unanswered before they go to all members.
constexpr int kUnanswered = 3;
// The ballot of the coordinator of rank `rank` that takes over after `past`.
Generation next_generation(Generation past, std::size_t rank) {
  return {((past.value >> 16) + 1) << 16 | rank};
}

}  // namespace

Membership::Membership(CommId world, std::string name, MemberId self, WorldView view,
                       const MembershipSettings& settings)
    : world_(world),
      name_(std::move(name)),
      self_(self),
      view_(std::move(view)),
      settings_(settings) {
  // The founders of a world agree on its first coordinator without a message.
  const bool founded = view_.epoch == Epoch{1} && settings_.coordinator == kNobody;
  for (std::size_t rank = 0; founded && rank < view_.members.size(); ++rank) {
    if (view_.members[rank] == kNobody) continue;
    promised_ = next_generation({}, rank);
    first_coordinator_ = view_.members[rank];
    break;
  }
}

Membership::Membership(std::string name, MemberId self, const Message& decision,
                       const MembershipSettings& settings)
    : Membership(decision.world, std::move(name), self, decision.view, settings) {
  promised_ = decision.generation;
  first_coordinator_ = kNobody;
  reports_ = decision.reports;
  at_boundary_ = decision.boundary;
  statement_ = decision.statement;
  lobby_version_ = view_.admitted;
}

MemberId Membership::coordinator() const {
  if (settings_.coordinator != kNobody) return settings_.coordinator;
  for (const MemberId member : view_.members) {
    if (member != kNobody && !is_suspect(member)) return member;
  }
  return self_;
}

Message Membership::make(MessageKind kind) const {
  Message m;
  m.kind = kind;
  m.world = world_;
  m.generation = promised_;
  m.epoch = view_.epoch;
  return m;
}

// A process that learns the view from this message must know the reports it was decided on.
void Membership::add_view(Message& m) const {
  m.view = view_;
  m.reports = reports_;
  m.boundary = at_boundary_;
  m.statement = statement_;
}

void Membership::send(MemberId to, Message message, Instant now) {
  if (to == self_) return to_own(self_, message, now);
  act(SendTo{to, std::move(message)});
}

Coordinator& Membership::own_coordinator(Instant now) {
  if (own_) return *own_;
  const auto at = std::find(view_.members.begin(), view_.members.end(), self_);
  const auto rank = static_cast<std::size_t>(at - view_.members.begin());
  const bool established = first_coordinator_ == self_;
  const bool reuses = is_planted(Planted::kLowBallots);
  if (!established) promised_ = next_generation(reuses ? Generation{} : promised_, rank);
  first_coordinator_ = kNobody;
  CoordinatorSettings settings;
  settings.heartbeat = settings_.heartbeat;
  settings.silence = settings_.silence;
  settings.elastic = settings_.elastic;
  settings.self = self_;
  settings.host_of = settings_.host_of;
  own_ = std::make_unique<Coordinator>(world_, name_, promised_, settings);
  own_->begin(view_, reports_, at_boundary_, established);
  for (const MemberId m : dead_) own_->on_closed(m, now);
  for (const MemberId m : silent_) own_->on_silent(m, now);
  for (const MemberId m : absent_) own_->on_closed(m, now);
  return *own_;
}

void Membership::to_own(MemberId from, const Message& message, Instant now) {
  own_coordinator(now).on_message(from, message, now);
  flush_own(now);
}

// Messages of the own coordinator to this member are handled at once; the others are sent.
void Membership::flush_own(Instant now) {
  if (flushing_ > 0) return;
  ++flushing_;
  for (auto sends = own_->take_sends(); own_ && !sends.empty(); sends = own_->take_sends()) {
    for (auto& [to, message] : sends) {
      if (to == self_) {
        on_message(self_, message, now);
      } else {
        act(SendTo{to, std::move(message)});
      }
    }
    if (!own_) break;
  }
  --flushing_;
}

void Membership::on_closed(MemberId member, Instant now) {
  if (view_.has_outcast(member)) absent_.insert(member);
  if (fenced_) return;
  silent_.erase(member);
  if (view_.has(member)) dead_.insert(member);
  if (own_) {
    own_->on_closed(member, now);
    flush_own(now);
  }
  if (view_.has(member)) stop(now);
}

void Membership::on_silent(MemberId member, Instant now) {
  if (fenced_) return;
  if (own_ && !view_.has(member)) own_->on_strayed(member);
  if (!view_.has(member) || is_suspect(member)) return;
  silent_.insert(member);
  if (own_) {
    own_->on_silent(member, now);
    flush_own(now);
  }
  complain(now);
}

void Membership::on_heard(MemberId member, Instant now) {
  if (fenced_ || silent_.erase(member) == 0) return;
  if (own_ && coordinator() != self_ && !is_planted(Planted::kNeverTakeBack)) {
    // This member coordinated in the absence of a member that comes before it.
    own_.reset();
    voted_.clear();
    if (changing()) stop(now);
  } else if (own_) {
    own_->on_back(member, now);
    flush_own(now);
  }
  complain(now);
}

void Membership::on_relinked(MemberId member, Instant now) {
  if (fenced_ || !view_.has(member)) return;
  on_heard(member, now);
  // What was sent to it last may have been lost with the connection.
  if (told_ && told_->first == member) told_.reset();
  if (own_) {
    own_->on_relinked(member);
    flush_own(now);
  }
  stop(now);
}

// Complains again and again while a member is silent, and once more when none is any longer.
void Membership::complain(Instant now) {
  if (silent_.empty() && coordinator() == self_ && !own_) return;
  Message m = make(MessageKind::kSuspect);
  m.lost.assign(silent_.begin(), silent_.end());
  send(coordinator(), std::move(m), now);
  if (!silent_.empty()) next_retry_ = std::min(next_retry_, now + settings_.heartbeat);
}

std::vector<MemberId> Membership::lost() const {
  std::vector<MemberId> lost;
  for (const MemberId m : view_.present()) {
    if (dead_.contains(m) || voted_.contains(m) || left_.contains(m)) lost.push_back(m);
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

// Stops for all members that are known to be lost by now.
void Membership::stop(Instant now) {
  std::vector<MemberId> lost = this->lost();
  if (stopped_ && lost == stopped_for_) return report(now);
  stopped_for_ = lost;
  stopping_ = true;
  act(StopFor{std::move(lost)});
}

void Membership::reported(Body body, Instant now) {
  // An answer for a view that has ended says nothing of the next one.
  if (fenced_ || !changing()) return;
  stopping_ = false;
  if (stopped_ != body) ++body_number_;
  stopped_ = std::move(body);
  report(now);
}

Message Membership::make_report() const {
  Message m = make(MessageKind::kReport);
  m.lost = stopped_for_;
  for (const MemberId lost : stopped_for_) {
    if (!dead_.contains(lost) && !left_.contains(lost)) m.unproven.push_back(lost);
  }
  m.body = *stopped_;
  m.body_number = body_number_;
  if (accepted_) m.accepted = encode(named(*accepted_));
  m.version = rival_.value;
  return m;
}

// A receiver that has been sent a body is sent its number only: it asks if it lacks the body.
void Membership::send_report(MemberId to, Message report, Instant now) {
  if (to == self_) {
    if (accepted_) report.accepted = encode(by_difference(*accepted_, view_));
    return to_own(self_, report, now);
  }
  report = abridged(std::move(report), view_);
  report.repeats = told_ == std::pair(to, report.body_number);
  if (report.repeats) {
    report.digest = 0;
    report.body = {};
  }
  told_ = {to, report.body_number};
  act(SendTo{to, std::move(report)});
}

void Membership::report(Instant now) {
  if (!stopped_) return;
  next_retry_ = now + settings_.heartbeat;
  reported_ = {coordinator(), promised_, now};
  send_report(reported_.to, make_report(), now);
}

// Whether the report that `to` asks for is on its way.
bool Membership::has_reported(MemberId to, Instant now) const {
  return stopped_ && reported_.to == to && reported_.ballot == promised_ &&
         now - reported_.at < settings_.heartbeat && lost() == stopped_for_;
}

// The process that this member takes for the coordinator may not be it: another member may
// coordinate, or hear the coordinator.
void Membership::report_to_all() {
  if (settings_.coordinator != kNobody) return;
  const Message report = abridged(make_report(), view_);
  for (const MemberId member : view_.present()) {
    if (member != self_ && member != coordinator() && !dead_.contains(member)) {
      act(SendTo{member, report});
    }
  }
}

void Membership::at_boundary(std::uint64_t version, Body body, Instant now) {
  boundary_ = {version, std::move(body)};
  // Members that left will not come to the boundary.
  for (const MemberId left : std::set<MemberId>(left_)) on_closed(left, now);
  if (changing()) return;
  next_retry_ = now + settings_.heartbeat;
  const MemberId to = coordinator();
  send(to, to == self_ ? make_boundary() : abridged(make_boundary(), view_), now);
}

Message Membership::make_boundary() const {
  Message m = make(MessageKind::kBoundary);
  m.version = boundary_->first;
  m.body = boundary_->second;
  return m;
}

void Membership::promise(Generation ballot) {
  if (ballot <= promised_) return;
  if ((ballot.value & 0xffff) != (promised_.value & 0xffff)) rival_ = promised_;
  promised_ = ballot;
}

void Membership::greet(Instant now) {
  greeted_ = false;
  told_.reset();
  greeted_with_ = promised_;
  Message m = make(MessageKind::kGreet);
  add_view(m);
  m.statement = attest();
  m.elastic = settings_.elastic;
  m.text = name_;
  if (accepted_) m.accepted = encode(by_difference(*accepted_, view_));
  m.version = rival_.value;
  next_retry_ = std::min(next_retry_, now + settings_.heartbeat);
  send(settings_.coordinator, std::move(m), now);
  if (stopped_) report(now);
}

void Membership::leave(Instant now) {
  if (settings_.coordinator == kNobody || fenced_) return;
  Message m = make(MessageKind::kSuspect);
  m.lost = {self_};
  send(settings_.coordinator, std::move(m), now);
  retire();
}

std::string Membership::blocked() const {
  if (own_) return own_->blocked();
  if (!is_led() || !stopped_ || unanswered_ <= kUnanswered) return {};
  return "the coordinator has not answered " + std::to_string(unanswered_) +
         " reports in a row: the change of view waits for it";
}

// From now on on_message() handles only messages about outcasts.
void Membership::retire() {
  fenced_ = true;
  own_.reset();
}

void Membership::tick(Instant now) {
  if (now >= next_ask_) look_at_outcasts(now);
  if (fenced_) return;
  if (own_) {
    own_->tick(now);
    flush_own(now);
  }
  if (now < next_retry_) return;
  next_retry_ = {Duration::max()};
  const bool refused = !refusal_.empty();
  if (settings_.coordinator != kNobody && (refused ? now >= next_greeting_ : !greeted_)) greet(now);
  if (refused) next_retry_ = std::min(next_retry_, next_greeting_);
  if (stopped_) {
    told_.reset();  // the last body may have been lost
    report(now);
  }
  if (stopped_ && ++unanswered_ > kUnanswered) report_to_all();
  if (boundary_ && !stopped_) at_boundary(boundary_->first, std::move(boundary_->second), now);
  if (!silent_.empty()) complain(now);
}

std::vector<Outcast> Membership::at_large() const {
  std::vector<Outcast> result = view_.outcasts;
  std::erase_if(result, [&](const Outcast& outcast) { return absent_.contains(outcast.member); });
  return result;
}

void Membership::await_outcasts(Instant now) {
  awaits_outcasts_ = true;
  look_at_outcasts(now);
}

// Every member tells the outcasts: the coordinator that voted one out may have gone, or not reach
// it. A member that leaves asks the coordinator whether they have answered, and the first other
// member, which may coordinate next.
void Membership::look_at_outcasts(Instant now) {
  next_ask_ = {Duration::max()};
  const std::vector<Outcast> outcasts = at_large();
  if (outcasts.empty() || (fenced_ && !awaits_outcasts_)) return;
  next_ask_ = now + settings_.heartbeat;
  Message asks = make(MessageKind::kAbsent);
  for (const auto& [outcast, rank, card] : outcasts) {
    asks.unproven.push_back(outcast);
    tell_outcast(outcast);
  }
  if (!awaits_outcasts_) return;
  for (const MemberId member : view_.members) {
    if (member == kNobody || member == self_ || is_suspect(member)) continue;
    act(SendTo{member, asks});
    break;
  }
  if (!fenced_ || coordinator() != self_) send(coordinator(), std::move(asks), now);
}

Instant Membership::next_tick() const {
  if (fenced_) return next_ask_;
  const Instant next = std::min(next_retry_, next_ask_);
  return own_ ? std::min(next, own_->next_tick()) : next;
}

}  // namespace holdfast::ft
