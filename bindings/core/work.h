// Works as Python holds them, and waits of Python for a work.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "comm/call/work.h"
#include "comm/communicator.h"

namespace holdfast::bindings {

// Negative seconds give 0; more than the clock can hold gives its maximum.
Duration from_seconds(double seconds);

// A work and the buffers it uses, which live until the op has ended even if Python drops both
// before. Only in that case does the runtime's thread wait for the interpreter to free them: that
// thread moves the data of all ops, and a busy interpreter would hold up every one.
class PyWork {
 public:
  PyWork(std::shared_ptr<comm::Work> work, nanobind::object keep)
      : work_(std::move(work)), keep_(std::move(keep)) {}
  PyWork(PyWork&&) = default;
  PyWork& operator=(PyWork&&) = delete;
  ~PyWork();

  comm::Work& operator*() const { return *work_; }
  comm::Work* operator->() const { return work_.get(); }
  const std::shared_ptr<comm::Work>& native() const { return work_; }

 private:
  // Owners: this and the engine, until the op has ended.
  std::shared_ptr<comm::Work> work_;
  nanobind::object keep_;
};

// The result of a blocking call that ended well at once.
struct PyEnded {
  std::shared_ptr<const comm::Outcome> outcome;
};

// Waits with the GIL released, and lets Python handle signals at intervals.
Status wait_for(comm::Work& work, Duration timeout);

// The wait of a blocking call: returns only when the op has ended, because the caller's buffers
// must live until then. An exception of a signal handler aborts the group first.
void wait_to_end(comm::Communicator& group, comm::Work& work);

void bind_work(nanobind::module_& m);

}  // namespace holdfast::bindings
