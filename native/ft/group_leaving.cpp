// How a member leaves its group. What it has ended, all others have to end the same way; but
// results of small ops are kept where they are, and what a member holds goes with it. So it leaves
// in two steps: it says which collectives it has ended, and goes when all have answered that they
// have ended these, too. Who leaves as well, or has gone, needs nothing.
#include <algorithm>

#include "base/planted.h"
#include "ft/group.h"
#include "ft/group_world.h"

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
        self->leave();
        leaving->gone.store(true, std::memory_order_release);
      },
      false);
  const auto gone = [&] { return leaving->gone.load(std::memory_order_acquire); };
  executor_->drive_until(gone, clock_->now() + kLeaveTime);
  if (leaving->quiet.load(std::memory_order_acquire)) return Status::ok();
  return {Code::kTimeout, "group " + name() + " was closed with ops still running"};
}

void Group::begin_leaving(std::shared_ptr<Leaving> leaving) {
  leaving_ = std::move(leaving);
  look_at_leaving();
}

void Group::look_at_leaving() {
  if (!quiet() || leaving_->settled.load(std::memory_order_relaxed)) return;
  if (!leaving_->quiet.exchange(true, std::memory_order_acq_rel)) {
    for (const MemberId member : config_.members) send_to(member, FrameKind::kClosing);
  }
  if (has_settled()) leaving_->settled.store(true, std::memory_order_release);
}

bool Group::has_settled() const {
  if (!config_.protect || !health().is_ok() || is_planted(Planted::kLeaveAtOnce)) return true;
  return std::all_of(config_.members.begin(), config_.members.end(), [this](MemberId member) {
    return member == kNobody || member == world_->membership().self() || has_gone(member) ||
           settled_.contains(member);
  });
}

// `next`: of the collectives, the first that it has not called; its lowest 32 bits.
void Group::on_closing(MemberId from, OpSeq next) {
  if (!has_member(from)) return;
  settled_.insert(from);
  leavers_[from] = comm::nearest_number(static_cast<std::uint32_t>(next.value), {launched_});
  answer_leavers();
}

void Group::on_settled(MemberId from) {
  if (has_member(from)) settled_.insert(from);
}

void Group::answer_leavers() {
  // What was not called here by now never will be.
  const bool over = !health().is_ok() || (leaving_ && quiet());
  const std::uint64_t ended = ops_.empty() ? launched_ : std::min(launched_, ops_.begin()->first);
  std::erase_if(leavers_, [&](const auto& leaver) {
    const auto& [member, next] = leaver;
    if (has_gone(member)) return true;
    if (!over && ended < next.value) return false;
    send_to(member, FrameKind::kSettled);
    return true;
  });
}

void Group::send_to(MemberId member, FrameKind kind) {
  if (member == kNobody || member == world_->membership().self()) return;
  comm::Link* control = world_->links_to(member).control;
  comm::FrameHeader header;
  header.kind = kind;
  header.key = {config_.id, epoch_, static_cast<std::uint32_t>(launched_), 0};
  control->session().send_control(header, {});
  control->pump();
}

// Tells the others that this member goes; what still runs here ends first.
void Group::leave() {
  if (comm::LiveCommunicator* comm = entered()) {
    if (!quiet()) comm->end_view({Code::kAborted, {config_.rank}, "closed with ops running"});
    comm->say_goodbye();
    [[maybe_unused]] const auto stopped = comm->interrupt();
    comm->abandon();
  }
  // Nobody is to find it any more, however long a thread that waits holds this group.
  const auto own = static_cast<std::size_t>(config_.rank.value);
  if (own < areas_.size() && areas_[own].segment) areas_[own].segment->unlink();
  if (world_->id() == config_.id) world_->leave(clock_->now());
  fail({Code::kNotMember, "group " + name() + " is closed"});
}

}  // namespace holdfast::ft
