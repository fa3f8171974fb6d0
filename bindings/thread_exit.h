// When the interpreter shuts down, CPython before 3.14 ends a thread that waits for the GIL by
// unwinding the thread's stack; a C++ frame with a noexcept destructor does not survive that.
// Why: docs/decisions/0103-waiting-threads-are-parked.md
#pragma once

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

namespace holdfast::bindings {

// Blocks a thread that must not go on, until the process ends.
[[noreturn]] inline void park() {
  for (;;) ::pause();
}

// Calls a function that waits for the GIL, or runs Python code, which may wait for it. A thread
// that CPython would end there is parked, as CPython does since 3.14.
template <class Call>
decltype(auto) parked_at_exit(Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (const abi::__forced_unwind&) {
    park();
  }
}

}  // namespace holdfast::bindings
