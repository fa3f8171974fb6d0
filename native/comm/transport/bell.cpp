#include "comm/transport/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace holdfast::comm {
namespace {

// The word is shared between processes, so not FUTEX_PRIVATE.
void futex_wake(std::atomic<std::uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr,
          0);
}

void futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t expected, Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = (timeout - seconds).count();
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAIT, expected, &limit, nullptr,
          0);
}

}  // namespace

std::uint32_t Bell::announce(Sleep how) {
  // acquire: the ticket is read before the caller's second look for work.
  const std::uint32_t ticket = words_->sequence.load(std::memory_order_acquire);
  // seq_cst: ordered before that second look, against ring()'s publish-then-look.
  words_->sleeping.store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return ticket;
}

void Bell::sleep(std::uint32_t ticket, Duration timeout) {
  futex_wait(&words_->sequence, ticket, timeout);
}

void Bell::awake() {
  // relaxed: a late reader only rings once too often.
  words_->sleeping.store(static_cast<std::uint32_t>(Sleep::kAwake), std::memory_order_relaxed);
}

void Bell::ring_self() {
  words_->sequence.fetch_add(1, std::memory_order_release);
  futex_wake(&words_->sequence);
}

Sleep Bell::ring() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return ring_published();
}

Sleep Bell::ring_published() {
  // relaxed: the fence orders this look after the caller's published work.
  if (words_->sleeping.load(std::memory_order_relaxed) == 0) return Sleep::kAwake;
  // One ringer pays for the system call, the others find the sleeper awake.
  const auto how = static_cast<Sleep>(words_->sleeping.exchange(0, std::memory_order_acq_rel));
  if (how == Sleep::kOnFutex) ring_self();
  return how;
}

}  // namespace holdfast::comm
