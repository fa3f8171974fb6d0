// The interpreter's lock (GIL) around native code, made safe while the interpreter shuts down: no
// thread of ours asks for the lock then, and a thread that waits for it already is parked
// (thread_exit.h).
#pragma once

#include <Python.h>

namespace holdfast::bindings {

// Whether the interpreter is finalizing or gone. Any thread, with or without the GIL.
bool interpreter_is_leaving();

// Releases the GIL for a scope, so that a native wait blocks no other thread. During finalization
// it keeps the GIL (callbacks then do without, see GilTaken); a thread that comes back too late is
// parked.
class GilReleased {
 public:
  GilReleased();
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// Takes the GIL on a thread of ours for a scope. False when the interpreter is leaving: then touch
// no Python object; objects that are not freed end with the process.
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

// The id of this process, and whether this is still the process with that id, not a forked child.
int this_process();
bool is_process(int id);

}  // namespace holdfast::bindings
