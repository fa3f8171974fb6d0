// Bell: wakes a sleeping process through shared memory. Each process has one; its words lie in a
// small segment that every peer of the host maps.
//
// The sleeper calls announce(), looks for work once more, and only then sleeps. If a ringer
// published work and saw no sleeper, that second look finds the work (both sides put a full fence
// between their store and their load).
// Why: docs/decisions/0098-who-comes-last-wakes.md
#pragma once

#include <atomic>
#include <cstdint>

#include "base/types.h"

namespace holdfast::comm {

enum class Sleep : std::uint32_t {
  kAwake = 0,
  kOnFutex = 1,   // wake with a futex
  kOnSocket = 2,  // wake with a kWake frame: it waits for sockets too
};

struct BellWords {
  alignas(64) std::atomic<std::uint32_t> sequence;
  std::atomic<std::uint32_t> sleeping;
  std::atomic<std::int32_t> waits_at;  // a core, and 1; 0: none
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class Bell {
 public:
  // A bell of no process, for peers that have none; it must not be rung.
  Bell() = default;
  explicit Bell(BellWords* words) : words_(words) {}

  // The sleeper's side. announce() returns the ticket for sleep().
  std::uint32_t announce(Sleep how);
  void sleep(std::uint32_t ticket, Duration timeout);
  void awake();
  // Wakes the sleeper from any thread of its own process.
  void ring_self();
  // A thread of this process has looked in vain on this core, and goes on waiting; -1: no longer.
  void wait_at(int core) {
    words_->waits_at.store(core + 1, std::memory_order_relaxed);  // relaxed: a hint
  }

  // The ringer's side: returns kOnSocket when the caller must send a kWake frame.
  Sleep ring();
  // As ring(), for a caller that has put a full fence behind what it published (one fence serves
  // many bells).
  Sleep ring_published();
  // Whether a thread of the process waits on that core; a hint.
  bool waits_at(int core) const {
    return words_->waits_at.load(std::memory_order_relaxed) == core + 1;  // relaxed: a hint
  }

 private:
  BellWords* words_ = nullptr;
};

}  // namespace holdfast::comm
