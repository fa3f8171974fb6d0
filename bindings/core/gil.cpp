#include "gil.h"

#include <unistd.h>

#include "thread_exit.h"

namespace holdfast::bindings {

bool interpreter_is_leaving() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

GilReleased::GilReleased() {
  if (PyGILState_Check() != 0 && !interpreter_is_leaving()) state_ = PyEval_SaveThread();
}

GilReleased::~GilReleased() {
  if (state_ == nullptr) return;
  // Another thread finalizes the interpreter; this thread has nothing left to do in Python.
  if (interpreter_is_leaving()) park();
  parked_at_exit([this] { PyEval_RestoreThread(state_); });
}

GilTaken::GilTaken() {
  if (interpreter_is_leaving()) return;
  parked_at_exit([this] { state_ = PyGILState_Ensure(); });
  taken_ = true;
}

GilTaken::~GilTaken() {
  if (taken_) PyGILState_Release(state_);
}

int this_process() { return ::getpid(); }

bool is_process(int id) { return ::getpid() == id; }

}  // namespace holdfast::bindings
