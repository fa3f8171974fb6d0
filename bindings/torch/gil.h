// Python's global lock, for code that does not know whether Python is its caller.
#pragma once

#include <Python.h>

#include "thread_exit.h"

namespace holdfast::torch_backend {

inline bool holds_gil() { return Py_IsInitialized() != 0 && PyGILState_Check() != 0; }

// Lets go of the GIL where this thread holds it: another thread may need it in a callback.
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

// Called by the thread that ends the process, before the groups are closed. The others' waits fail
// then, and each would ask for the GIL in torch's own bindings, which an interpreter that goes away
// aborts the process for.
void process_ends();

// Parks a thread of Python's from then on, except the one that ends the process.
void park_if_process_ends();

}  // namespace holdfast::torch_backend
