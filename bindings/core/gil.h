// The interpreter's lock around native code, made safe for an interpreter that is going away: we do
// not ask for the lock then, and who waited for it already is parked (thread_exit.h).
#pragma once

#include <Python.h>

namespace holdfast::bindings {

// Whether the interpreter is finalizing or gone. Any thread, with or without the lock.
bool interpreter_is_leaving();

// Gives the lock away for a scope, so that a native wait stops nobody. During finalization it keeps
// the lock (callbacks then do without, see GilTaken); a thread that comes back too late is parked.
class GilReleased {
 public:
  GilReleased();
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// Takes the lock on a thread of ours for a scope. False when the interpreter is leaving: then touch
// no Python object; what is not freed ends with the process.
class GilTaken {
 public:
  GilTaken();
  ~GilTaken();
  GilTaken(const GilTaken&) = delete;
  GilTaken& operator=(const GilTaken&) = delete;
  explicit operator bool() const { return taken_; }

 private:
  bool taken_ = false;
  PyGILState_STATE state_{};
};

// The id of this process, and whether this still is the process with that id and no forked child.
int this_process();
bool is_process(int id);

}  // namespace holdfast::bindings
