// Executor port: which thread drives the communicators. All mutable state of the runtime belongs to
// one thread at a time, the one that drives; other threads submit tasks. Implemented by the runtime
// and by the simulator.
#pragma once

#include <functional>

#include "base/task.h"
#include "base/types.h"

namespace holdfast::comm {

// What a poll of shared memory found.
struct MemoryPoll {
  bool moved = false;
  bool enough = false;  // nothing under way waits for anything outside shared memory
};

class Executor {
 public:
  using Task = holdfast::Task;
  virtual ~Executor() = default;

  // Runs `task` on the driving thread, in submission order. `wake`: run it soon; otherwise the
  // submitter is about to call drive_until(). Any thread.
  virtual void submit(Task task, bool wake) = 0;
  // Runs `task` soon on whichever thread drives, but with the runtime released. Driving thread
  // only.
  virtual void defer(Task task) = 0;
  // Lends the calling thread for a few polls, if no thread drives and no task waits: calls `step`
  // until it returns true; its argument says whether this is the last call. False: it was not
  // called. Any thread, not from within a task.
  virtual bool drive_inline(const std::function<bool(bool last)>& step) = 0;
  // Whether a thread that drives inline has a core of its own: it then returns within microseconds.
  // Any thread.
  virtual bool has_cores() const { return false; }
  // Whether tasks wait to be run. Any thread.
  virtual bool has_tasks() const = 0;
  // Lends the calling thread until done() or the deadline. Any thread, not from within a task.
  virtual void drive_until(const std::function<bool()>& done, Instant deadline) = 0;
};

}  // namespace holdfast::comm
