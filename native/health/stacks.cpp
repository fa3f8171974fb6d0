#include "health/stacks.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace holdfast::health {
namespace {

// Limit of the file, which every call makes longer.
constexpr off_t kMaxFileBytes = off_t{4} << 20;

// Without a handler the signal would end the process.
bool is_handled(int signal) {
  struct sigaction now {};
  if (::sigaction(signal, nullptr, &now) != 0) return false;
  return now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
}

// A signal that a thread sends to itself is delivered before the call returns, unless it is
// blocked.
bool run_handler(int signal) {
  sigset_t one;
  sigset_t before;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  if (::pthread_sigmask(SIG_UNBLOCK, &one, &before) != 0) return false;
  const int error = ::pthread_kill(::pthread_self(), signal);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

off_t size_of(int file) {
  struct stat now {};
  return ::fstat(file, &now) == 0 ? now.st_size : off_t{-1};
}

}  // namespace

Result<std::string> Stacks::take() const {
  const std::uint64_t source = source_.load(std::memory_order_relaxed);
  const int file = static_cast<int>(source >> 32);
  const int signal = static_cast<int>(source & 0xffffffffU);
  if (signal == 0 || !is_handled(signal)) {
    return Status{Code::kUnsupported, "this program tells no stacks"};
  }
  off_t from = size_of(file);
  if (from > kMaxFileBytes && ::ftruncate(file, 0) == 0) from = 0;
  if (from < 0 || !run_handler(signal)) return Status{Code::kSystem, "cannot take the stacks"};
  const off_t wrote = std::max<off_t>(0, size_of(file) - from);
  std::string text(std::min(static_cast<std::size_t>(wrote), kMaxStackBytes), '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return text;
}

}  // namespace holdfast::health
