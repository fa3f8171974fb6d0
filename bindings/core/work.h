// Works as Python holds them, and how Python waits for one.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "comm/call/work.h"
#include "comm/communicator.h"

namespace holdfast::bindings {

// Negative is none; more than the clock can hold is what it can.
Duration from_seconds(double seconds);

// A work and the buffers it uses, which live until the op has ended even if Python forgets both.
// Only then the runtime's thread has to wait for the interpreter to drop them: it moves the data of
// all ops, and a busy interpreter would hold up every one.
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

// What is left of a blocking call that ended at once, well.
struct PyEnded {
  std::shared_ptr<const comm::Outcome> outcome;
};

// Waits with the GIL released, and lets Python see signals now and then.
Status wait_for(comm::Work& work, Duration timeout);

// For a call that blocks: ends with the op, for the caller's buffers must not go before. A signal's
// exception ends the op first.
void wait_to_end(comm::Communicator& group, comm::Work& work);

void bind_work(nanobind::module_& m);

}  // namespace holdfast::bindings
