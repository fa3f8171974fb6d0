// What groups and worlds tell of themselves: to the observer, and to people.
#include <algorithm>

#include "group/group.h"
#include "group/world.h"

namespace holdfast::ft {
namespace {

using comm::LossCause;
using comm::OpWork;

// Whom an op waits for is asked once in so long, and of ops that have run for so long: it takes a
// look at every step of the op.
constexpr Duration kWatchPause = std::chrono::milliseconds(1);

// The system ends the connections of a dead process within milliseconds; of a dead host, never.
constexpr Duration kExplanationTime = std::chrono::seconds(1);

std::string rank_text(const std::vector<std::size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

void Group::observe_begin(OpWork& work, Instant now) {
  if (observer_ == nullptr) return;
  observer_->on_op_begun({config_.id, work.sequence(), epoch_, config_.rank, work.request()},
                         work.ticket(), now);
}

void Group::observe_path(const OpWork& work) {
  if (observer_ != nullptr && work.ticket().number != 0) observer_->on_path_taken(work.ticket());
}

void Group::observe_end(OpWork& work, const Status& status, bool repaired) {
  comm::OpTicket& ticket = work.ticket();
  if (observer_ == nullptr || ticket.number == 0) return;
  const Instant now = clock_->now();
  if (watch_.number == ticket.number) {
    observer_->on_waited(ticket, watch_.ranks, now - watch_.seen);
    watch_.number = 0;
  }
  ticket.wait = work.waited();
  observer_->on_op_ended(ticket, status.code(), repaired, now);
}

void Group::observe_inline_begin(InlineOp& inline_op) {
  if (observer_ == nullptr) return;
  inline_op.ticket.path = comm::OpPath::kFlat;
  observer_->on_op_begun({config_.id, *inline_op.sequence, epoch_, config_.rank, inline_op.request},
                         inline_op.ticket, clock_->now());
}

void Group::observe_inline_end(InlineOp& inline_op) {
  if (observer_ == nullptr) return;
  inline_op.ticket.wait.since = inline_op.ticket.started;
  observer_->on_op_ended(inline_op.ticket, Code::kOk, false, clock_->now());
}

std::vector<Rank> Group::collective_waits_for() const {
  if (!entrance_) return comm_->oldest_waits_for();
  std::vector<Rank> ranks;
  for (const MemberId member : sharing_.awaited()) {
    if (member != world_->membership().self()) ranks.push_back(*rank_of(member));
  }
  return ranks;
}

void Group::observe_waits(Instant now) {
  next_watch_ = now + kWatchPause;
  const auto is_old = [now](const OpWork* work) {
    return work != nullptr && work->ticket().number != 0 &&
           now - work->ticket().started >= kWatchPause;
  };
  const OpWork* collective = comm_ ? comm_->oldest() : nullptr;
  if (entrance_ && !ops_.empty()) collective = ops_.begin()->second.work.get();
  const bool collects = is_old(collective);
  if (!collects && !is_old(messages_.oldest())) {
    watch_.number = 0;
    return;
  }
  const comm::OpTicket& ticket = (collects ? collective : messages_.oldest())->ticket();
  const Instant since = watch_.number == ticket.number ? watch_.seen : ticket.started;
  watch_.ranks.clear();
  for (const Rank rank : collects ? collective_waits_for() : messages_.oldest_waits_for()) {
    watch_.ranks.push_back(config_.world_ranks[static_cast<std::size_t>(rank.value)]);
  }
  observer_->on_waited(ticket, watch_.ranks, now - since);
  watch_.number = ticket.number;
  watch_.seen = now;
}

// Closing a group, or being voted out of it, is not its failure.
void Group::observe_failure(const Status& status) {
  const bool whole = config_.id == world_->id();
  if (observer_ == nullptr || !whole || status.code() == Code::kNotMember) return;
  observer_->on_standing(comm::Standing::kEnded);
}

// A view has begun: its links, and at first the group itself.
void Group::observe_view() {
  if (observer_ == nullptr) return;
  if (epoch_ == config_.epoch) observer_->on_group_named(config_.id, config_.name);
  for (const Rank rank : present_) {
    if (rank == config_.rank) continue;
    const auto r = static_cast<std::size_t>(rank.value);
    const comm::MemberLinks links = world_->links_to(config_.members[r]);
    observer_->on_linked(config_.world_ranks[r], *links.control);
    observer_->on_linked(config_.world_ranks[r], *links.data);
  }
}

void World::tell_of(const WorldView& before, const WorldView& after, Instant now) {
  Change change{after.epoch, after.present().size(), after.members.size(), {}, {}, now};
  for (std::size_t r = 0; r < after.members.size(); ++r) {
    const MemberId was = r < before.members.size() ? before.members[r] : kNobody;
    if (was == after.members[r]) continue;
    if (was != kNobody) change.out.push_back({r, was, std::nullopt});
    if (after.members[r] != kNobody) change.joined.push_back(r);
  }
  if (comm::Observer* observer = network_.observer()) {
    const Duration stopped = stopped_since_ ? now - *stopped_since_ : Duration::zero();
    const Rank self = rank_of(self_).value_or(Rank{-1});
    observer->on_view_begun(
        {after.epoch, self, change.present, change.joined.size(), change.out.size(), stopped});
    observe_standing(comm::Standing::kMember);
  }
  stopped_since_.reset();
  if (!change.out.empty()) change.until = now + kExplanationTime;
  if (!change.out.empty() || !change.joined.empty()) untold_.push_back(std::move(change));
  explain_losses(now);
  std::erase_if(goodbyes_, [&](MemberId member) { return !after.has(member); });
}

void World::tell(const Change& change) {
  std::vector<std::size_t> lost;
  std::vector<std::size_t> left;
  std::vector<std::size_t> out;  // this process leaves before it knows why
  for (const Change::Out& one : change.out) {
    (!one.cause ? out : one.cause == LossCause::kLeft ? left : lost).push_back(one.rank);
  }
  std::string text = "view " + std::to_string(change.epoch.value) + ": ";
  if (!lost.empty()) text += "lost " + rank_text(lost) + "; ";
  if (!out.empty()) text += "without " + rank_text(out) + "; ";
  if (!left.empty()) text += rank_text(left) + " left; ";
  if (!change.joined.empty()) text += rank_text(change.joined) + " joined; ";
  network_.say(text + std::to_string(change.present) + " of " + std::to_string(change.size) +
               " ranks go on");
}

std::optional<LossCause> World::cause_of(MemberId lost) const {
  const bool said_goodbye = std::find(goodbyes_.begin(), goodbyes_.end(), lost) != goodbyes_.end();
  const Loss* loss = network_.loss_of(lost);
  if (said_goodbye || (loss != nullptr && loss->left)) return LossCause::kLeft;
  if (loss != nullptr) return loss->gone ? LossCause::kDied : LossCause::kCut;
  return std::nullopt;
}

void World::explain(Change::Out& out, LossCause cause) {
  if (out.cause) return;
  out.cause = cause;
  if (comm::Observer* observer = network_.observer()) observer->on_member_lost(cause);
}

void World::explain_losses(Instant now) {
  for (Change& change : untold_) {
    for (Change::Out& out : change.out) {
      std::optional<LossCause> cause = cause_of(out.member);
      if (!cause && now >= change.until) cause = LossCause::kSilent;
      if (cause) explain(out, *cause);
    }
  }
  const auto is_known = [](const Change& change) {
    return std::all_of(change.out.begin(), change.out.end(),
                       [](const Change::Out& out) { return out.cause.has_value(); });
  };
  while (!untold_.empty() && is_known(untold_.front())) {
    tell(untold_.front());
    untold_.pop_front();
  }
}

void World::observe_standing(comm::Standing standing) {
  if (comm::Observer* observer = network_.observer()) observer->on_standing(standing);
}

}  // namespace holdfast::ft
