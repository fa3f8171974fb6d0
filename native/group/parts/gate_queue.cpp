#include "group/parts/gate_queue.h"

#include <algorithm>
#include <string>

namespace holdfast::group {
namespace {

// The code that brings the input wakes the driver when it is there. A lost device wakes nothing, so
// gates are polled, too.
constexpr Duration kGateLook = std::chrono::milliseconds(20);

Status late(Duration timeout) {
  const double seconds = std::chrono::duration<double>(timeout).count();
  return Status(Code::kTimeout, "its input was not there when the timeout of " +
                                    std::to_string(seconds) + " s had passed (option timeout)");
}

}  // namespace

std::optional<GateQueue::Passed> GateQueue::next(Instant now) {
  if (gate_queue_.empty()) {
    next_look_ = Instant{Duration::max()};
    return std::nullopt;
  }
  const Called first = gate_queue_.front();
  comm::Gate* gate = first.work->request().how.gate.get();
  const std::optional<Status> open = gate == nullptr ? Status::ok() : gate->look();
  if (!open && now < first.deadline) {
    next_look_ = now + kGateLook;
    return std::nullopt;
  }
  if (!open) return Passed{first, late(first.work->request().timeout)};
  if (!open->is_ok()) return Passed{first, *open};
  if (gate != nullptr) gate->fill(first.work->late_request());
  gate_queue_.pop_front();
  return Passed{first, Status::ok()};
}

Instant GateQueue::next_deadline() const {
  if (gate_queue_.empty()) return Instant{Duration::max()};
  return std::min(gate_queue_.front().deadline, next_look_);
}

}  // namespace holdfast::group
