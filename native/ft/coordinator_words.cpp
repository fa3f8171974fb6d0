// What a coordinator refers to without saying it again, and what it asks of who does so: groups by
// their digest, decisions by what members have accepted, views by their epoch.
#include "ft/coordinator.h"
#include "ft/view_change.h"

namespace holdfast::ft {
namespace {

// Far more than the members of two views have.
constexpr std::size_t kMostGroups = 4 * kMaxRanks;

}  // namespace

// One member at a time: a view of many members is long, and all have the same.
void Coordinator::ask_for_view(MemberId member, Instant now) {
  if (now < view_asked_until_) return;
  view_asked_until_ = now + settings_.heartbeat;
  ask(member);
}

Coordinator::Said Coordinator::take_said(const Message& message) {
  if (message.digest != 0) return {message.digest, message.body.ops};
  const std::uint64_t groups = digest_of(message.body.groups);
  if (known_groups_.size() >= kMostGroups) keep_groups(last_reports_);
  known_groups_.emplace(groups, message.body.groups);
  return {groups, message.body.ops};
}

// Asks for those that it does not know: once each, until it is time to ask again.
bool Coordinator::know_groups(const std::vector<std::pair<MemberId, const Said*>>& all) {
  bool known = true;
  for (const auto& [member, said] : all) {
    if (known_groups_.contains(said->groups)) continue;
    known = false;
    if (asked_groups_.insert(said->groups).second) ask(member);
  }
  return known;
}

// A member without groups says none; the others have those of the last view, mostly.
void Coordinator::keep_groups(const Reports& reports) {
  known_groups_ = {{digest_of(Bytes{}), {}}};
  for (const Bytes& groups : reports.groups()) known_groups_.emplace(digest_of(groups), groups);
}

Message Coordinator::named_decision() const {
  Message m = make(MessageKind::kDecide);
  m.digest = digest_of_value(decided());
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
  if (message.epoch < view_.epoch) return send(from, decided());
  if (proposal_) send(from, *proposal_);
}

}  // namespace holdfast::ft
