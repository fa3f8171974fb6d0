// What an operator asks of a world: that a member goes, at once or at a step boundary; that the
// members wait. No message is of this alone: who goes is an outcast, which is told why until it has
// answered, and a lobby of a new version makes members meet at their next step boundary.
// Why: docs/decisions/0163-an-operator-acts-through-pages.md
#include <algorithm>

#include "ft/coordinator.h"

namespace holdfast::ft {
namespace {

// Far more than a person sends away.
constexpr std::size_t kMostOut = 4096;

Status refuse_order(const std::string& why) { return {Code::kConfigError, why}; }

std::string ranks_present(const WorldView& view) {
  constexpr std::size_t kShown = 32;
  std::string text;
  std::size_t shown = 0;
  for (std::size_t r = 0; r < view.members.size(); ++r) {
    if (view.members[r] == kNobody) continue;
    if (shown++ == kShown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + std::to_string(r);
  }
  return text.empty() ? "none: it has no members" : text;
}

}  // namespace

std::vector<MemberId> Coordinator::lobby() const {
  std::vector<MemberId> waiting;
  for (const auto& [member, joiner] : lobby_) waiting.push_back(member);
  return waiting;
}

// The member of that rank, where others would be left without it.
Result<MemberId> Coordinator::to_go(Rank rank) const {
  const auto r = static_cast<std::size_t>(rank.value);
  const bool known = rank.value >= 0 && r < view_.members.size();
  if (!known || view_.members[r] == kNobody) {
    return refuse_order("no member has rank " + std::to_string(rank.value) + " in \"" + name_ +
                        "\"; accepted: " + ranks_present(view_));
  }
  const MemberId member = view_.members[r];
  std::vector<MemberId> rest = staying();
  std::erase_if(rest, [&](MemberId m) { return m == member || orders_.draining.contains(m); });
  if (!rest.empty()) return member;
  return refuse_order("rank " + std::to_string(rank.value) + " is the last member of \"" + name_ +
                      "\" that stays; to end a job, end its processes");
}

void Coordinator::note_out(MemberId member, std::string why) {
  if (orders_.out.size() >= kMostOut) orders_.out.erase(orders_.out.begin());
  orders_.out.insert_or_assign(member, std::move(why));
}

Status Coordinator::kick(Rank rank, const std::string& why, Instant now) {
  const auto member = to_go(rank);
  if (!member.is_ok()) return member.status();
  std::vector<MemberId> rest = staying();
  std::erase(rest, member.value());
  const std::size_t left = rest.size();
  if (read_record() && !may_decide(vote_of(std::move(rest)))) {
    return refuse_order("\"" + name_ + "\" could not go on without rank " +
                        std::to_string(rank.value) + ": no quorum with " + std::to_string(left) +
                        " of its " + std::to_string(view_.present().size()) +
                        " members, of a view that this coordinator has not decided; end its "
                        "process instead");
  }
  orders_.draining.erase(member.value());
  note_out(member.value(), "kicked by an operator" + (why.empty() ? "" : ": " + why));
  lose(member.value(), false, now);
  try_decide(now);
  return Status::ok();
}

Status Coordinator::drain(Rank rank, const std::string& why, Instant until) {
  const auto member = to_go(rank);
  if (!member.is_ok()) return member.status();
  if (!lost_.contains(member.value())) {
    orders_.draining.insert_or_assign(member.value(), until);
    note_out(member.value(), "drained by an operator" + (why.empty() ? "" : ": " + why));
    ask_to_meet();
  }
  return Status::ok();
}

Status Coordinator::pause(Instant until) {
  if (view_.epoch.value == 0) {
    return refuse_order("\"" + name_ + "\" has not begun yet: its members are still in the lobby");
  }
  orders_.paused_until = until;
  ask_to_meet();
  return Status::ok();
}

void Coordinator::resume(Instant now) {
  if (!orders_.paused_until) return;
  orders_.paused_until.reset();
  tell_lobby(false);
  try_admit(now);
}

bool Coordinator::is_at_rest() const {
  const std::vector<MemberId> members = view_.present();
  return orders_.paused_until && std::all_of(members.begin(), members.end(),
                                             [&](MemberId m) { return boundaries_.contains(m); });
}

std::string Coordinator::order_for(MemberId member) const {
  if (orders_.draining.contains(member)) return "drain";
  return is_kicked(member) ? "kick" : "";
}

// And the view without it has not come yet.
bool Coordinator::is_kicked(MemberId member) const {
  return view_.has(member) && orders_.out.contains(member) && !orders_.draining.contains(member);
}

// Those who leave at this boundary may not know it yet.
void Coordinator::vacate(WorldView& view) {
  for (std::size_t r = 0; r < view_.members.size(); ++r) {
    const MemberId member = view_.members[r];
    if (!orders_.draining.contains(member)) continue;
    cast_out(view, {member, {static_cast<std::int32_t>(r)}, view_.cards[r]});
    view.members[r] = kNobody;
  }
}

void Coordinator::look_at_orders(Instant now) {
  if (orders_.paused_until && now >= *orders_.paused_until) resume(now);
  // A proposal may have it out already.
  if (proposal_) return;
  for (auto at = orders_.draining.begin(); at != orders_.draining.end();) {
    if (view_.has(at->first) && now < at->second) {
      ++at;
      continue;
    }
    if (view_.has(at->first)) orders_.out.erase(at->first);
    at = orders_.draining.erase(at);
  }
}

// A view has begun: what it has carried out is done. What it has not is asked for again: members
// that have passed a boundary go to no other one for a version that they know.
void Coordinator::forget_orders() {
  std::erase_if(orders_.draining, [&](const auto& entry) { return !view_.has(entry.first); });
  if (!orders_.draining.empty() || orders_.paused_until) ask_to_meet();
}

// What a process in the lobby waits for, beside a step boundary.
std::string Coordinator::lobby_reason() const {
  return blocked().empty() && orders_.paused_until ? "an operator has paused the group" : blocked();
}

}  // namespace holdfast::ft
