// Gate queue: ops at their gates (comm/gate.h): called, so that they have their number and their
// place, while their input is still on the way. Ops begin in call order, for the log of calls and
// the exchanges in shared memory are in that order; so every op called behind a closed gate waits
// in the queue. It begins nothing itself: the group asks it what may begin.
//
// The rest of the group, and the other members, treat an op in the queue as not called: losses and
// step boundaries handle such ops already.
//
// Thread: only the holder of the runtime.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "comm/call/op_work.h"

namespace holdfast::group {

class GateQueue {
 public:
  struct Called {
    std::shared_ptr<comm::OpWork> work;
    Instant deadline;
  };
  // An op that may begin. Not ok: its input will not come; it stays where it is, for the group
  // cannot go on past it.
  struct Passed {
    Called op;
    Status status;
  };

  bool empty() const { return gate_queue_.empty(); }
  // Whether the op has to wait in the queue, be its gate open or not.
  bool holds(const comm::OpWork& work) const {
    return !gate_queue_.empty() || work.request().how.gate;
  }
  void push(Called op) { gate_queue_.push_back(std::move(op)); }
  // The first op, if its gate is open or its time is up. Messages are in the queue, too.
  std::optional<Passed> next(Instant now);
  // When to look again.
  Instant next_deadline() const;
  // Takes all ops of the queue, which end here.
  std::deque<Called> take_all() { return std::exchange(gate_queue_, {}); }

 private:
  std::deque<Called> gate_queue_;  // in call order
  Instant next_look_{Duration::max()};
};

}  // namespace holdfast::group
