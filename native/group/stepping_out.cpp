// How a member leaves a derived group, which has no part of its own in the world: without waiting.
// The group lingers (group_list.h) until the other members have ended its ops, too; in shared
// memory each sees that by itself, elsewhere the members tell each other (parts/departure.h).
#include "group/group.h"
#include "group/world.h"

namespace holdfast::group {

void Group::ask_for_turns() { world_->wake(*this); }

bool Group::needs_turns() const {
  return busy() || (entrance_ && !dormant_) || (comm_ && comm_->busy()) ||
         boundary_.is_under_way() || !gate_queue_.empty() || !departure_.is_idle() ||
         has_missed() || stepping_out_ != nullptr;
}

// Nothing: this member's ops have not ended in time, or its world has gone before it.
std::optional<Status> Group::close_derived(Instant deadline) {
  auto leaving = std::make_shared<Leaving>();
  const auto submitted = [self = shared_from_this(), leaving] {
    self->stepping_out_ = leaving;
    self->ask_for_turns();
    self->look_at_stepping_out();
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
  if (memory_.leases().has_begun()) {
    memory_.leases().end();
    return world_->linger(shared_from_this());
  }
  // What others have called, they cannot end without this member, which has called nothing.
  const bool was_used = !dormant_ && health().is_ok() && ops_.first_uncalled() > 0;
  if (!was_used || !config_.protect || roster_.members.size() == 1) return drop(true);
  parting_ = std::make_shared<Leaving>();
  departure_.begin(parting_, clock_->now());
  world_->linger(shared_from_this());
}

bool Group::has_been_let_go(const std::function<bool(MemberId)>& acts) const {
  if (memory_.leases().has_begun()) return memory_.leases().have_others_ended(acts);
  return !health().is_ok() || parting_ == nullptr ||
         parting_->settled.load(std::memory_order_acquire);
}

void Group::drop(bool let_go) {
  if (comm_) {
    [[maybe_unused]] const auto stopped = comm_->interrupt();
    comm_->abandon();
  }
  stepping_out_.reset();
  if (let_go) {
    memory_.leases().release();
  } else {
    memory_.leases().end();
  }
  world_->network().note_ended(config_.id);
  fail({Code::kNotMember, "group " + name() + " is closed"});
}

// The first collective is called here. Where the view has ended, the group takes part in the next
// one as any other.
void Group::end_dormancy() {
  dormant_ = false;
  if (!entrance_) return;
  memory_.lease();
  if (!memory_.is_under_way() || memory_.settle()) enter_view();
}

}  // namespace holdfast::group
