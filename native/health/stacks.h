// Stacks: the stacks of the program's threads, which show why a rank has not called an op. The core
// knows no language: the program installs a handler for a signal that writes all stacks to a file
// (Python's faulthandler does, without the interpreter's lock), and names both here.
// Why: docs/decisions/0064-stacks-by-signal.md
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace holdfast::health {

// Limit of one answer; the rest is cut.
inline constexpr std::size_t kMaxStackBytes = std::size_t{256} << 10;

class Stacks {
 public:
  // `file`: open for reading and appending as long as take() may be called. Any thread.
  void set(int file, int signal) {
    // One word holds both, so that no reader sees half of them. relaxed: it publishes nothing else.
    source_.store(
        std::uint64_t{static_cast<std::uint32_t>(file)} << 32 | static_cast<std::uint32_t>(signal),
        std::memory_order_relaxed);
  }
  // Runs the signal's handler on this thread, and returns what it wrote. kUnsupported when no file
  // was set, or no handler is installed any more. One thread at a time.
  Result<std::string> take() const;

 private:
  std::atomic<std::uint64_t> source_{0};  // file, signal; signal 0: none
};

}  // namespace holdfast::health
