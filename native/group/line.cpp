// Ops at their gates (comm/gate.h): called, so that they have their number and their place, while
// their input is still on the way. Ops begin in call order, for the log of calls and the exchanges
// in shared memory are in that order; so whatever is called behind a closed gate waits in line.
// To the rest of the group, and to the other members, what is in the line has not been called:
// losses and step boundaries know already what to do about that.
#include "group/group.h"
#include "group/world.h"

namespace holdfast::ft {
namespace {

// What brings the input says when it is there. A device that is lost says nothing.
constexpr Duration kGateLook = std::chrono::milliseconds(20);

}  // namespace

void Group::enter(const std::shared_ptr<comm::OpWork>& work) {
  const Instant now = clock_->now();
  const Instant deadline = now + work->request().timeout;
  if (!line_.empty() || work->request().how.gate) {
    line_.push_back({work, deadline});
    pass_line(now);
  } else if (comm::is_point_to_point(work->collective())) {
    launch_message(work, deadline);
  } else {
    launch(work, deadline);
  }
}

// Whether an op left the line.
bool Group::pass_line(Instant now) {
  bool moved = false;
  while (!line_.empty()) {
    const Waiting first = line_.front();
    comm::Gate* gate = first.work->request().how.gate.get();
    const std::optional<Status> open = gate == nullptr ? Status::ok() : gate->look();
    if (!open && now < first.deadline) {
      next_gate_look_ = now + kGateLook;
      return moved;
    }
    moved = true;
    if (!open || !open->is_ok()) {
      const double seconds = std::chrono::duration<double>(first.work->request().timeout).count();
      refuse_at_gate(*first.work,
                     open ? *open
                          : Status(Code::kTimeout, "its input was not there when the timeout of " +
                                                       std::to_string(seconds) +
                                                       " s had passed (option timeout)"));
      return moved;
    }
    if (gate != nullptr) gate->fill(first.work->late_request());
    line_.pop_front();
    if (comm::is_point_to_point(first.work->collective())) {
      launch_message(first.work, first.deadline);
    } else {
      launch(first.work, first.deadline);
    }
  }
  next_gate_look_ = Instant{Duration::max()};
  return moved;
}

// As with an op that gave up: this rank has lost its place in the program, and the others must not
// wait for it.
void Group::refuse_at_gate(const comm::OpWork& work, const Status& why) {
  const std::string text = op_text(work) + ": " + why.message();
  if (comm::ViewCommunicator* comm = entered()) {
    comm->end_view({why.code(), {config_.rank}, text});
  }
  fail(Status(why.code(), text).about({config_.rank}, epoch_));
}

}  // namespace holdfast::ft
