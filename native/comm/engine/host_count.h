// Host counts: the counters in shared memory by which the ranks of a host tell each other how far
// they are. A counter counts what its owner has done in a view. Its upper bits hold the view's
// epoch, so that one load gives both: areas outlive views, and a counter of another view says
// nothing about this one.
//
// At a million ops a second the count lasts nine years. Only the lowest bits of the epoch have
// room: counters are compared by their distance (serial numbers, RFC 1982), and a rank rewrites its
// own long before an epoch with the same low bits returns.
// Why: docs/decisions/0035-left-behind-means-left-behind.md
// Why: docs/decisions/0126-counters-have-48-bits.md
#pragma once

#include <atomic>
#include <cstdint>

#include "base/types.h"

namespace holdfast::comm {

inline constexpr int kCountBits = 48;

// The counter of a view in which nothing has been counted yet.
inline constexpr std::uint64_t first_count(Epoch epoch) {
  return std::uint64_t{epoch.value} << kCountBits;
}

inline constexpr bool same_view(std::uint64_t a, std::uint64_t b) {
  return a >> kCountBits == b >> kCountBits;
}

// Whether a counter has reached `value` in the same view. Members that have gone on to the view
// after next count in the same place, and a rank that they left behind must not take those counts
// for its own view's.
inline bool reached(const std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  const std::uint64_t at = counter.load(std::memory_order_acquire);  // acquire: it announces data
  return at >= value && same_view(at, value);
}

// Whether a counter has reached `value` or is beyond it, in this or a later view.
inline bool passed(const std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  const std::uint64_t at = counter.load(std::memory_order_acquire);  // acquire: before later reads
  return static_cast<std::int64_t>(at - value) >= 0;
}

struct Fences {
  static void release() { std::atomic_thread_fence(std::memory_order_release); }
};

// Tells readers that the data this process writes next is no longer what they expect. A reader
// reads the data first, then fences, then loads this counter. A memory order on the store alone
// would not do: it keeps earlier writes from moving behind the store, but not later writes from
// moving before it, which Arm does (the total store order of x86 does not).
template <class Fence = Fences, class Word>
void take_back(Word& word, std::uint64_t value) {
  word.store(value, std::memory_order_relaxed);
  Fence::release();
}

}  // namespace holdfast::comm
