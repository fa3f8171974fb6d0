// How a member leaves its group. What it has ended, all others have to end the same way; but
// results of small ops are kept where they are, and what a member holds goes with it. So it leaves
// in two steps: it says which collectives it has ended, and goes when all have answered that they
// have ended these, too. Who leaves as well needs nothing. A member that does not answer is waited
// for until a decided view is without it; one that was voted out without proof of its end, until it
// has answered: it would go on alone from the older view.
// Why: docs/decisions/0094-a-leaver-asks.md
#include <algorithm>

#include "base/planted.h"
#include "comm/call/call.h"
#include "group/group.h"
#include "group/world.h"

namespace holdfast::ft {
namespace {

using comm::FrameKind;

// More than the driver ever needs to run one task.
constexpr Duration kLeaveTime = std::chrono::seconds(5);

}  // namespace

Status Group::close(Duration timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status::ok();
    closed_ = true;
  }
  auto leaving = std::make_shared<Leaving>();
  if (timeout > Duration::zero()) {
    const Instant deadline = clock_->now() + timeout;
    executor_->submit([self = shared_from_this(), leaving] { self->begin_leaving(leaving); },
                      false);
    const auto quiet = [&] { return leaving->quiet.load(std::memory_order_acquire); };
    executor_->drive_until(quiet, deadline);
    const auto settled = [&] { return leaving->settled.load(std::memory_order_acquire); };
    executor_->drive_until(settled, std::min(deadline, clock_->now() + config_.timeout));
  }
  executor_->submit(
      [self = shared_from_this(), leaving] {
        if (self->quiet()) leaving->quiet.store(true, std::memory_order_release);
        leaving->outcome = self->leaving_status();
        if (leaving->outcome.code() == Code::kUnconfirmed) self->world_->give_up_outcasts();
        if (!self->parted_) self->leave();
        leaving->gone.store(true, std::memory_order_release);
      },
      false);
  const auto gone = [&] { return leaving->gone.load(std::memory_order_acquire); };
  executor_->drive_until(gone, clock_->now() + kLeaveTime);
  if (!gone()) return {Code::kTimeout, "group " + name() + " was closed, and its driver is busy"};
  return leaving->outcome;
}

Status Group::leaving_status() const {
  if (leaving_ && leaving_->settled.load(std::memory_order_relaxed)) return leaving_->outcome;
  if (Status ended = health(); !parted_ && ended.code() == Code::kNotMember) return ended;
  if (!quiet()) return {Code::kTimeout, "group " + name() + " was closed with ops still running"};
  std::vector<Rank> doubtful = ranks_in_doubt();
  if (doubtful.empty()) return Status::ok();
  const std::uint64_t first = kept_.empty() ? launched_ : std::min(launched_, kept_.begin()->first);
  std::string text = "group " + name() + " was closed in epoch " + std::to_string(epoch_.value) +
                     ", which " + comm::rank_list(doubtful) + " did not confirm: ";
  text += first < launched_ ? "whether it has the results of collective #" + std::to_string(first) +
                                  " and later ones is not known"
                            : "if it lives, it may go on alone in an older view";
  return Status(Code::kUnconfirmed,
                text + "; of two checkpoints, the one of the higher epoch counts")
      .about(std::move(doubtful), epoch_);
}

void Group::begin_leaving(std::shared_ptr<Leaving> leaving) {
  leaving_ = std::move(leaving);
  look_at_leaving(clock_->now());
}

// Its own ops have ended, and others have not answered yet.
bool Group::asks_to_leave() const {
  return leaving_ && !parted_ && quiet() && !leaving_->settled.load(std::memory_order_relaxed);
}

void Group::look_at_leaving(Instant now) {
  if (!quiet() || leaving_->settled.load(std::memory_order_relaxed)) return;
  if (!leaving_->quiet.exchange(true, std::memory_order_acq_rel)) world_->await_outcasts(now);
  const std::vector<Rank> doubtful = ranks_in_doubt();
  const bool answered = std::none_of(config_.members.begin(), config_.members.end(),
                                     [this](MemberId member) { return waits_for(member); });
  if (doubtful.empty() || (answered && world_->has_given_up())) {
    // It holds for this view; the next one may begin before a thread that waits has its turn.
    leaving_->outcome = leaving_status();
    leaving_->settled.store(true, std::memory_order_release);
    return;
  }
  // The members need nothing any more, and an op that misses this one must not wait.
  if (answered && !parted_) executor_->submit([self = shared_from_this()] { self->part(); }, false);
  if (now < next_closing_ || answered) return;
  // Again and again: what was said over a connection that broke may not have been heard.
  next_closing_ = now + world_->membership().settings().heartbeat;
  for (const MemberId member : config_.members) {
    if (waits_for(member)) send_to(member, FrameKind::kClosing, epoch_);
  }
}

void Group::part() {
  if (parted_) return;
  parted_ = true;
  leave();
  if (world_->id() == config_.id) world_->retire();
}

// It has neither answered in this view nor left.
bool Group::waits_for(MemberId member) const {
  return !parted_ && member != kNobody && member != world_->membership().self() &&
         !left_.contains(member) && !settled_.contains(member);
}

std::vector<Rank> Group::ranks_in_doubt() const {
  const bool over = !parted_ && !health().is_ok();
  if (!config_.protect || over || is_planted(Planted::kLeaveAtOnce)) return {};
  const std::vector<Rank> at_large = world_->ranks_at_large();
  std::vector<Rank> doubtful;
  for (std::size_t r = 0; r < config_.members.size(); ++r) {
    const bool voted_out =
        std::find(at_large.begin(), at_large.end(), config_.world_ranks[r]) != at_large.end();
    if (voted_out || waits_for(config_.members[r])) {
      doubtful.push_back({static_cast<std::int32_t>(r)});
    }
  }
  return doubtful;
}

// `next`: of the collectives, the first that it has not called; its lowest 32 bits.
void Group::on_closing(MemberId from, Epoch epoch, OpSeq next) {
  if (!has_member(from) || epoch < epoch_) return;
  const OpSeq whole = comm::nearest_number(static_cast<std::uint32_t>(next.value), {launched_});
  leavers_[from] = {whole, epoch};
  note_leavers();
  answer_leavers();
}

// Who leaves needs nothing of others any more.
void Group::note_leavers() {
  std::erase_if(leavers_, [this](const auto& leaver) {
    return !has_member(leaver.first) || leaver.second.epoch < epoch_;
  });
  for (const auto& [member, leaver] : leavers_) {
    if (leaver.epoch == epoch_) settled_.insert(member);
  }
}

void Group::on_settled(MemberId from, Epoch epoch) {
  if (has_member(from) && epoch == epoch_) settled_.insert(from);
}

void Group::answer_leavers() {
  // What was not called here by now never will be.
  const bool ended_here = !health().is_ok();
  const bool over = ended_here || (leaving_ && quiet());
  const std::uint64_t ended = ops_.empty() ? launched_ : std::min(launched_, ops_.begin()->first);
  std::erase_if(leavers_, [&](const auto& leaver) {
    const auto& [member, wants] = leaver;
    if (has_gone(member)) return true;
    // Where the group has ended no later view of it begins.
    const bool later = wants.epoch > epoch_ && !ended_here;
    if (later || (!over && ended < wants.next.value)) return false;
    send_to(member, FrameKind::kSettled, wants.epoch);
    return true;
  });
}

void Group::send_to(MemberId member, FrameKind kind, Epoch epoch) {
  if (member == kNobody || member == world_->membership().self()) return;
  comm::Link* control = world_->links_to(member).control;
  comm::FrameHeader header;
  header.kind = kind;
  header.key = {config_.id, epoch, static_cast<std::uint32_t>(launched_), 0};
  control->session().send_control(header, {});
  control->pump();
}

// Tells the others that this member goes; what still runs here ends first.
void Group::leave() {
  if (comm::ViewCommunicator* comm = entered()) {
    if (!quiet()) comm->end_view({Code::kAborted, {config_.rank}, "closed with ops running"});
    comm->say_goodbye();
    [[maybe_unused]] const auto stopped = comm->interrupt();
    comm->abandon();
  }
  // Nobody is to find it any more, however long a thread that waits holds this group.
  const auto own = static_cast<std::size_t>(config_.rank.value);
  if (own < areas_.size() && areas_[own].segment) areas_[own].segment->unlink();
  if (world_->id() == config_.id) world_->leave(clock_->now());
  world_->network().note_ended(config_.id);
  fail({Code::kNotMember, "group " + name() + " is closed"});
}

}  // namespace holdfast::ft
