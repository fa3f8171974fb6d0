// Bell: how a process that sleeps is woken through shared memory. One per process; its words lie in
// a small segment that every peer of the host maps.
//
// Sleeper: announce(), look for work once more, then sleep; a ringer that published work before it
// saw no sleeper is seen by that second look (both sides put a full fence between their store and
// their load).
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
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class Bell {
 public:
  // Nobody's: stands where there is none to ring.
  Bell() = default;
  explicit Bell(BellWords* words) : words_(words) {}

  // Sleeper's side. announce() returns the ticket for sleep().
  std::uint32_t announce(Sleep how);
  void sleep(std::uint32_t ticket, Duration timeout);
  void awake();
  // Also from other threads of the sleeper's own process.
  void ring_self();

  // Ringer's side: returns kOnSocket when the caller must send a kWake frame.
  Sleep ring();
  // The same, where the caller has put a full fence behind what it published (one for many bells).
  Sleep ring_published();

 private:
  BellWords* words_ = nullptr;
};

}  // namespace holdfast::comm
