// How a member leaves its group. Where the group was met for, it asks the others and waits
// (parts/departure.h). A derived group it leaves at once: the group lingers (group_list.h) until
// the other members have ended its ops, too; in shared memory each sees that by itself, elsewhere
// the members tell each other in the background.
#include <algorithm>

#include "group/group.h"
#include "group/world.h"

namespace holdfast::group {
namespace {

// Longer than the driver ever needs to run one task.
constexpr Duration kLeaveTime = std::chrono::seconds(5);

}  // namespace

Status Group::close(Duration timeout) {
  if (!callers_.close()) return Status::ok();
  auto leaving = std::make_shared<Leaving>();
  if (timeout > Duration::zero()) {
    const Instant deadline = clock_->now() + timeout;
    if (config_.derived) {
      if (const auto closed = close_derived(deadline)) return *closed;
    }
    const bool last = config_.id == world_->id();
    executor_->submit(
        [self = shared_from_this(), leaving, last] {
          if (last) self->world_->await_lingering();
          self->begin_leaving(leaving);
        },
        false);
    const auto quiet = [&] { return leaving->quiet.load(std::memory_order_acquire); };
    executor_->drive_until(quiet, deadline);
    const auto settled = [&] {
      return leaving->settled.load(std::memory_order_acquire) && !(last && world_->has_lingering());
    };
    executor_->drive_until(settled, std::min(deadline, clock_->now() + config_.timeout));
  }
  executor_->submit(
      [self = shared_from_this(), leaving] {
        if (self->quiet()) leaving->quiet.store(true, std::memory_order_release);
        leaving->outcome = self->leaving_status();
        if (leaving->outcome.code() == Code::kUnconfirmed) self->world_->give_up_outcasts();
        if (!self->departure_.has_parted()) self->leave();
        leaving->gone.store(true, std::memory_order_release);
      },
      false);
  const auto gone = [&] { return leaving->gone.load(std::memory_order_acquire); };
  executor_->drive_until(gone, clock_->now() + kLeaveTime);
  if (!gone()) return {Code::kTimeout, "group " + name() + " was closed, and its driver is busy"};
  return leaving->outcome;
}

std::vector<Rank> Group::ranks_at_large() const { return world_->ranks_at_large(); }

void Group::await_outcasts(Instant now) { world_->await_outcasts(now); }

bool Group::has_given_up() const { return world_->has_given_up(); }

void Group::part_soon() {
  const auto part = [self = shared_from_this()] {
    if (!self->departure_.part()) return;
    self->leave();
    if (self->world_->id() == self->config_.id) self->world_->retire();
  };
  executor_->submit(part, false);
}

void Group::tell(MemberId member, comm::FrameKind kind, Epoch epoch) {
  comm::FrameHeader header;
  header.kind = kind;
  header.key = {config_.id, epoch, static_cast<std::uint32_t>(ops_.first_uncalled()), 0};
  say(member, header);
}

void Group::tell_of(MemberId member, comm::FrameKind kind, Epoch epoch, std::uint64_t next,
                    Ask ask) {
  comm::FrameHeader header;
  header.kind = kind;
  header.key = {config_.id, epoch, static_cast<std::uint32_t>(next),
                static_cast<std::uint32_t>(ask)};
  say(member, header);
}

void Group::say(MemberId member, const comm::FrameHeader& header) {
  if (member == ft::kNobody || member == world_->membership().self()) return;
  comm::Link* control = world_->links_to(member).control;
  // What is not heard is said again, over the connection that is there by then.
  if (control == nullptr) return world_->reach(member);
  control->session().send_control(header, {});
  control->pump();
}

bool Group::is_sparse() const { return world_->membership().is_sparse(); }

void Group::on_closing(MemberId from, const comm::FrameHeader& frame) {
  ask_for_turns();
  departure_.on_closing(from, frame.key.epoch, OpSeq{frame.key.op}, Ask{frame.key.ordinal});
}

void Group::on_settled(MemberId from, const comm::FrameHeader& frame) {
  const Ask ask{frame.key.ordinal};
  // It speaks for nobody but itself.
  if (ask == Ask::kEnded && is_sparse()) return on_goodbye(from);
  departure_.on_settled(from, frame.key.epoch, OpSeq{frame.key.op}, ask);
}

// Tells the others that this member goes; what still runs here ends first.
void Group::leave() {
  stepping_out_.reset();
  if (comm::ViewCommunicator* comm = dormant_ ? nullptr : entered()) {
    if (!quiet()) comm->end_view({Code::kAborted, {config_.rank}, "closed with ops running"});
    comm->say_goodbye();
    [[maybe_unused]] const auto stopped = comm->interrupt();
    comm->abandon();
  }
  // The area is unlinked now, however long a waiting thread still holds this group.
  memory_.unlink_own();
  if (world_->id() == config_.id) world_->leave(clock_->now());
  world_->network().note_ended(config_.id);
  fail({Code::kNotMember, "group " + name() + " is closed"});
  if (!memory_.has_lease()) return;
  // Others may read the area that this member had.
  memory_.leases()->end();
  world_->linger(shared_from_this(), clock_->now());
}

void Group::ask_for_turns() { world_->wake(*this); }

bool Group::needs_turns() const {
  return busy() || (entrance_ && !dormant_) || (comm_ && comm_->busy()) ||
         boundary_.is_under_way() || !gate_queue_.empty() || !departure_.is_idle() ||
         has_missed() || mail_.is_open() || stepping_out_ != nullptr;
}

// Nothing: this member's ops have not ended in time, or its world has gone before it.
std::optional<Status> Group::close_derived(Instant deadline) {
  auto leaving = std::make_shared<Leaving>();
  const auto submitted = [self = shared_from_this(), leaving] {
    self->stepping_out_ = leaving;
    self->look_at_stepping_out();
    if (self->stepping_out_) self->ask_for_turns();
  };
  executor_->submit(submitted, false);
  const auto gone = [&] { return leaving->gone.load(std::memory_order_acquire); };
  executor_->drive_until(gone, deadline);
  if (!gone()) return std::nullopt;
  return leaving->outcome;
}

void Group::look_at_stepping_out() {
  if (!quiet()) return;
  const auto leaving = std::exchange(stepping_out_, nullptr);
  leaving->outcome = health().code() == Code::kNotMember ? health() : Status::ok();
  step_out();
  leaving->gone.store(true, std::memory_order_release);
}

void Group::step_out() {
  // What others have called, they cannot end without this member, which has called nothing.
  const bool was_used = !dormant_ && health().is_ok() && ops_.first_uncalled() > 0;
  if (memory_.has_lease()) {
    if (!was_used) memory_.leases()->end();
    return world_->linger(shared_from_this(), clock_->now());
  }
  if (!was_used || !config_.protect || roster_.members.size() == 1) return drop(true);
  parting_ = std::make_shared<Leaving>();
  departure_.begin(parting_, clock_->now());
  world_->linger(shared_from_this(), clock_->now());
}

bool Group::has_been_let_go(const std::function<bool(MemberId)>& acts) {
  if (memory_.has_lease()) {
    return memory_.leases()->try_end(acts) && memory_.leases()->have_others_ended(acts);
  }
  return !health().is_ok() || parting_ == nullptr ||
         parting_->settled.load(std::memory_order_acquire);
}

void Group::drop(bool let_go) {
  if (comm_) {
    [[maybe_unused]] const auto stopped = comm_->interrupt();
    comm_->abandon();
  }
  stepping_out_.reset();
  if (Leases* leases = memory_.leases()) let_go ? leases->release() : leases->end();
  world_->network().note_ended(config_.id);
  fail({Code::kNotMember, "group " + name() + " is closed"});
}

// The first collective is called here. Where the view has ended, the group takes part in the next
// one as any other.
void Group::end_dormancy() {
  ask_for_turns();
  dormant_ = false;
  if (!entrance_) return;
  memory_.lease();
  if (!memory_.is_under_way() || memory_.settle()) enter_view();
}

}  // namespace holdfast::group
