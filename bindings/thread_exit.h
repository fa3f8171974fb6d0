// CPython before 3.14 ends a thread that waits for its lock when the interpreter goes away, by
// unwinding the thread's stack; no C++ frame with a noexcept destructor survives that.
// Why: docs/decisions/0103-waiting-threads-are-parked.md
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace holdfast::bindings {

// For a thread that must not come back: until the process is gone.
[[noreturn]] inline void park() {
  for (;;) ::pause();
}

// Calls what waits for the interpreter's lock, or runs Python code, which does so at times. A
// thread that is ended there is parked, as it is since CPython 3.14.
template <class Call>
decltype(auto) parked_at_exit(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const abi::__forced_unwind&) {
    park();
  }
}

}  // namespace holdfast::bindings
