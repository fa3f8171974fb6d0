// Python's global lock, for code that does not know whether Python is its caller.
#pragma once

#include <Python.h>

namespace holdfast::torch_backend {

inline bool holds_gil() { return Py_IsInitialized() != 0 && PyGILState_Check() != 0; }

// Lets go of the GIL where this thread holds it: another thread may need it in a callback.
class WithoutGil {
 public:
  WithoutGil() : state_(holds_gil() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace holdfast::torch_backend
