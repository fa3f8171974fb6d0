// Gate queue: ops at their gates (comm/gate.h): called, so that they have their number and their
// place, while their input is still on the way. Ops begin in call order, for the log of calls and
// the exchanges in shared memory are in that order; so whatever is called behind a closed gate
// waits in line. It begins nothing itself: the group asks it what may begin.
//
// To the rest of the group, and to the other members, what is in the queue has not been called:
// losses and step boundaries know already what to do about that.
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
  // An op whose time has come. Not ok: its input will not come; it stays where it is, for the group
  // cannot go on past it.
  struct Passed {
    Called op;
    Status status;
  };

  bool empty() const { return line_.empty(); }
  // Whether the op has to wait in line, be its gate open or not.
  bool holds(const comm::OpWork& work) const { return !line_.empty() || work.request().how.gate; }
  void push(Called op) { line_.push_back(std::move(op)); }
  // The first op, if its gate is open or its time is up. Messages are in line, too.
  std::optional<Passed> next(Instant now);
  // When to look again.
  Instant next_deadline() const;
  // All that are in line, which end here.
  std::deque<Called> take_all() { return std::exchange(line_, {}); }

 private:
  std::deque<Called> line_;  // in call order
  Instant next_look_{Duration::max()};
};

}  // namespace holdfast::group
