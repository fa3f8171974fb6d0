// Python's global lock (GIL), for code that does not know whether its caller holds it.
#pragma once

#include <Python.h>

#include "thread_exit.h"

namespace holdfast::torch_backend {

inline bool holds_gil() { return Py_IsInitialized() != 0 && PyGILState_Check() != 0; }

// Releases the GIL for a scope if this thread holds it: another thread may need it in a callback.
class WithoutGil {
 public:
  WithoutGil() : state_(holds_gil() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_ != nullptr) bindings::parked_at_exit([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Called by the thread that ends the process, before the groups are closed. Waits of other threads
// then fail, and each would ask for the GIL in torch's own bindings, for which an interpreter that
// shuts down aborts the process.
void process_ends();

// After process_ends(), parks every calling thread except the one that ends the process.
void park_if_process_ends();

}  // namespace holdfast::torch_backend
