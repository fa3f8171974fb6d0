// What gives a coordinator the right to decide: the members that stay, a durable record, and,
// outside the view, that it decided the view itself, or that more than half of its members have
// promised.
#include <algorithm>
#include <array>
#include <cstdio>

#include "base/planted.h"
#include "ft/coordinator.h"
#include "ft/quorum.h"

namespace holdfast::ft {
namespace {

bool holds(const std::vector<MemberId>& members, MemberId member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

}  // namespace

Listener Coordinator::standing() const {
  if (!settings_.outside || view_.epoch.value > 0) return Listener::kCoordinator;
  return settings_.founding ? Listener::kFounding : Listener::kStarted;
}

// Whether the message tells of a later view, and whoever decided that has signed it.
bool Coordinator::has_news(const Message& message) const {
  const bool older = message.view.epoch < view_.epoch && !message.statement.empty();
  const bool later =
      message.view.epoch > view_.epoch || (older && is_planted(Planted::kOldStatement));
  return later && message.kind != MessageKind::kDecide &&
         is_attested(settings_.notary, name_, message);
}

// Whether its record knows better than the message: a view is recorded before any member knows it.
bool Coordinator::refutes(const Message& message) {
  return !read_record() ||
         (recorded_ && recorded_->world == world_ && message.view.epoch > recorded_->epoch);
}

// Whoever is in the record's view is a member, too: that view is decided. So is whoever shows a
// later view that was signed. Without signatures a coordinator that knows no view yet takes the
// word of anybody who says that it is in one.
Speaker Coordinator::standing_of(MemberId from, const Message& message, bool is_news) {
  const bool is_in = message.view.has(from);
  if (view_.has(from)) return Speaker::kMember;
  if (settings_.notary != nullptr && is_news && is_in && !refutes(message)) return Speaker::kMember;
  // A process that was voted out may have asked to come in again.
  if (lobby_.contains(from)) return Speaker::kWaiting;
  if (view_.has_outcast(from)) return Speaker::kOutcast;
  const bool recorded = recorded_ && recorded_->world == world_;
  if (recorded && holds(recorded_->members, from)) return Speaker::kMember;
  const bool believes = standing() == Listener::kStarted && settings_.notary == nullptr;
  return believes && is_in && !refutes(message) ? Speaker::kMember : Speaker::kStranger;
}

bool Coordinator::may_say(MemberId from, const Message& message, bool is_news) {
  if (is_planted(Planted::kBelieveLobby)) return true;
  return ft::may_say(standing(), standing_of(from, message, is_news), claim_of(message));
}

// What it does not take from the sender may show that the sender missed its own exclusion. A member
// of a later view is none of those: this coordinator hears of that view from a member of both.
void Coordinator::object(MemberId from, const Message& message) {
  const bool knocks = message.kind == MessageKind::kReady || lobby_.contains(from);
  if (knocks || view_.epoch.value == 0 || message.epoch > view_.epoch) return;
  fence(from, "voted out: view " + std::to_string(view_.epoch.value) +
                  " of the group does not have this process any more");
}

bool Coordinator::is_deserted() const {
  return view_.epoch.value > 0 && staying().empty() &&
         std::all_of(lost_.begin(), lost_.end(),
                     [&](const auto& entry) { return entry.second || is_excluded(entry.first); });
}

bool Coordinator::is_deaf() const {
  std::vector<MemberId> all = staying();
  // Who is kicked may be the only one that is left, and comes back where it is.
  for (const auto& [member, proven] : lost_) {
    if (!proven && is_kicked(member)) all.push_back(member);
  }
  return !unheard_.empty() &&
         std::all_of(all.begin(), all.end(), [&](MemberId m) { return unheard_.contains(m); });
}

void Coordinator::hold(const std::string& why, Instant now) {
  if (why == held_) return;
  held_ = why;
  // Members that were out of reach, and are back, have a view.
  if (held_.empty() && view_.epoch.value == 0) try_first_view(now);
}

Vote Coordinator::vote_of(std::vector<MemberId> staying) const {
  Vote vote;
  vote.view = view_.present();
  vote.staying = std::move(staying);
  vote.recorded = is_behind() || is_recorded();
  if (settings_.outside) vote.half = breaks_ties() ? HalfOfView::kEnough : HalfOfView::kTooFew;
  return vote;
}

bool Coordinator::allowed(Instant now) {
  blocked_.clear();
  if (now < settings_.decides_from) {
    blocked_ = "the coordinator has just been started: who has a later view comes first";
    return false;
  }
  if (!read_record()) return false;
  Vote vote = vote_of(staying());
  vote.all_proven =
      std::all_of(lost_.begin(), lost_.end(), [](const auto& entry) { return entry.second; });
  if (may_decide(vote)) return true;
  blocked_ = "no quorum: " + std::to_string(vote.staying.size()) + " of " +
             std::to_string(vote.view.size()) + " members can be reached, and the others' death " +
             "is not proven";
  if (vote.half == HalfOfView::kTooFew && 2 * vote.staying.size() == vote.view.size()) {
    blocked_ += "; this coordinator has not decided their view, and waits for more than half";
  }
  return false;
}

// Counts members that have promised this ballot and accepted no proposal of another coordinator:
// when they are more than half, no other coordinator can have decided the next view, and none will
// without them.
void Coordinator::note_promise(MemberId from, const Message& message) {
  if (!settings_.outside || message.epoch != view_.epoch) return;
  const auto note_rival = [&](Generation ballot) {
    if ((ballot.value & 0xffff) != (generation_.value & 0xffff)) rival_ = std::max(rival_, ballot);
  };
  note_rival(message.generation);
  if (message.kind != MessageKind::kGreet && message.kind != MessageKind::kReport) return;
  note_rival({message.version});
  if (message.generation != generation_ || !message.accepted.empty()) return;
  promised_by_.insert(from);
  if (breaks_ties() || 2 * promised_by_.size() <= view_.present().size()) return;
  tie_since_ = generation_;
  if (rival_ >= tie_since_ || is_behind()) return;
  write_record(view_);
}

// Jobs of a fixed size are founded without the coordinator, so several may have one name in turn:
// the world's id is part of the key.
std::string Coordinator::record_key() const {
  if (settings_.elastic) return name_;
  std::array<char, 20> id{};
  std::snprintf(id.data(), id.size(), "#%016llx", static_cast<unsigned long long>(world_.value));
  return name_ + id.data();
}

bool Coordinator::read_record() {
  if (settings_.record == nullptr || record_read_) return true;
  auto said = settings_.record->load(record_key());
  if (!said.is_ok()) {
    blocked_ = "its record cannot be read: " + said.status().message();
    return false;
  }
  recorded_ = std::move(said).value();
  record_read_ = true;
  exclude();
  return true;
}

bool Coordinator::is_excluded(MemberId member) const {
  return is_behind() && view_.has(member) && !holds(recorded_->members, member);
}

// Loses the members that the record's view is without: that view is decided, even if no process
// here knows it yet.
void Coordinator::exclude() {
  for (const MemberId member : view_.present()) {
    if (is_excluded(member)) lost_.emplace(member, false);
  }
}

// Proposes the record's view again: it was written when all members that stayed had accepted it, so
// one of them has it.
void Coordinator::follow_record(const Message* accepted, Instant now) {
  if (accepted != nullptr && entry_of(accepted->view) == *recorded_) return propose(*accepted, now);
  blocked_ = "its record says view " + std::to_string(recorded_->epoch.value) +
             ", and nobody who has accepted that view can be reached";
}

// To be called before the view is published. False: `blocked_` says why.
bool Coordinator::write_record(const WorldView& next) {
  if (settings_.record == nullptr) return true;
  if (!read_record()) return false;
  const WorldRecord entry = entry_of(next);
  if (recorded_ == entry) return true;
  if (is_planted(Planted::kUncompared)) {
    recorded_ = entry;
    const auto there = settings_.record->load(record_key());
    return there.is_ok() &&
           settings_.record->compare_and_set(record_key(), there.value(), entry).is_ok();
  }
  const bool others = recorded_ && recorded_->world != world_;
  if (others && (view_.epoch.value == 0 || recorded_->world < world_)) {
    blocked_ = "its record gives the name to an older world";
    record_read_ = false;  // the older world may end
    return false;
  }
  if (recorded_ && recorded_->world == world_ && recorded_->epoch >= entry.epoch) {
    blocked_ = "its record says view " + std::to_string(recorded_->epoch.value) +
               " with other members: another coordinator decides, too";
    return false;
  }
  const auto written = settings_.record->compare_and_set(record_key(), recorded_, entry);
  if (!written.is_ok()) {
    blocked_ = "its record cannot be written: " + written.status().message();
    return false;
  }
  if (written.value()) {
    recorded_ = entry;
    return true;
  }
  record_read_ = false;
  if (read_record()) blocked_ = "another coordinator has changed its record";
  return false;
}

void Coordinator::give_up_name() {
  lobby_.clear();
  if (settings_.record == nullptr || !recorded_ || recorded_->world != world_) return;
  // An error is ignored: the next life finds the name taken for a while.
  [[maybe_unused]] const auto gone =
      settings_.record->compare_and_set(record_key(), recorded_, std::nullopt);
  recorded_.reset();
}

}  // namespace holdfast::ft
