// References in a coordinator's messages, and how it asks for what it lacks: digests stand for
// groups, what a member has accepted for a decision, epochs for views.
#include "ft/coordinator.h"
#include "ft/view_change.h"

namespace holdfast::ft {
namespace {

// Limit of known groups: far more than the members of two views have.
constexpr std::size_t kMostGroups = 4 * kMaxRanks;

}  // namespace

// Asks one member at a time: a view of many members is long, and all have the same.
void Coordinator::ask_for_view(MemberId member, Instant now) {
  if (now < view_asked_until_) return;
  view_asked_until_ = now + settings_.heartbeat;
  ask(member);
}

Coordinator::SaidGroups Coordinator::take_said(const Message& message) {
  if (message.digest != 0) return {message.digest, message.body.ops};
  const std::uint64_t groups = digest_of(message.body.groups);
  if (known_groups_.size() >= kMostGroups) keep_groups(last_reports_);
  known_groups_.emplace(groups, message.body.groups);
  return {groups, message.body.ops};
}

// Whether all groups are known here; asks for those that are not.
bool Coordinator::know_groups(const std::vector<std::pair<MemberId, const SaidGroups*>>& all) {
  bool known = true;
  for (const auto& [member, said] : all) {
    if (known_groups_.contains(said->groups)) continue;
    known = false;
    ask_once(member, said->groups);
  }
  return known;
}

// Asks once; tick() allows to ask again.
void Coordinator::ask_once(MemberId member, std::uint64_t digest) {
  if (asked_for_.insert(digest).second) ask(member);
}

// nullopt: the message repeats a body that this coordinator has not been sent.
std::optional<Coordinator::SaidGroups> Coordinator::take_body(MemberId from,
                                                              const Message& message) {
  if (!message.repeats) {
    SaidGroups said = take_said(message);
    bodies_[from] = {message.body_number, said};
    return said;
  }
  const auto at = bodies_.find(from);
  const bool known = at != bodies_.end() && at->second.first == message.body_number;
  return known ? std::optional(at->second.second) : std::nullopt;
}

// nullopt: the proposal is not for the next view.
std::optional<Coordinator::Accepted> Coordinator::take_accepted(const Message& value) const {
  if (value.epoch != view_.epoch) return std::nullopt;
  if (value.digest != 0) return Accepted{value.generation, value.digest, {}};
  if (value.view.epoch.value != view_.epoch.value + 1) return std::nullopt;
  return Accepted{value.generation, digest_of_value(value), value};
}

// nullptr: no process has sent it whole.
const Message* Coordinator::value_of(const Accepted& accepted) const {
  const auto is_it = [&](const std::optional<Accepted>& other) {
    return other && other->whole && other->digest == accepted.digest;
  };
  if (is_it(accepted)) return &*accepted.whole;
  if (is_it(withdrawn_)) return &*withdrawn_->whole;
  for (const auto& [member, report] : reports_) {
    if (is_it(report.accepted)) return &*report.accepted->whole;
  }
  return nullptr;
}

void Coordinator::forget_reports() {
  reports_.clear();
  bodies_.clear();
  withdrawn_.reset();
}

// Keeps the empty list, of members without groups, and the groups of the last view, which most
// members still have.
void Coordinator::keep_groups(const Reports& reports) {
  known_groups_ = {{digest_of(Bytes{}), {}}};
  for (const Bytes& groups : reports.groups()) known_groups_.emplace(digest_of(groups), groups);
}

// The last decision, whole.
Message Coordinator::decided() const {
  Message m = make(MessageKind::kDecide);
  m.view = view_;
  m.reports = last_reports_;
  m.boundary = last_at_boundary_;
  m.statement = statement_;
  return m;
}

Message Coordinator::named_decision() const {
  Message m = make(MessageKind::kDecide);
  m.digest = digest_of_value(decided());
  m.statement = statement_;
  return m;
}

// `its`: the view that the member has.
void Coordinator::send_decided(MemberId to, Epoch its) {
  if (!last_change_ || its.value + 1 != view_.epoch.value) return send(to, decided());
  Message m = *last_change_;
  m.generation = generation_;
  send(to, std::move(m));
}

void Coordinator::answer_behind(MemberId from, const Message& message) {
  if (message.epoch < view_.epoch) {
    send(from, decided());
    return on_relinked(from);
  }
  if (proposal_) send(from, *proposal_);
}

Message Coordinator::make_prepare() const {
  Message m = make(MessageKind::kPrepare);
  m.lost = lost();
  for (const auto& [member, proven] : lost_) {
    if (!proven) m.unproven.push_back(member);
  }
  return m;
}

void Coordinator::on_relinked(MemberId member) {
  if (!view_.has(member) || lost_.contains(member)) return;
  if (proposal_) {
    if (!accepted_by_.contains(member)) send(member, by_difference(*proposal_, view_));
  } else if (asked_ && !has_reported(member, lost())) {
    send(member, make_prepare());
  }
}

}  // namespace holdfast::ft
