// Host counts: the words by which the ranks of a host tell each other how far they are. Each counts
// what its owner has done in a view, and carries the view's epoch above the count, so that one load
// tells both: areas outlive views, and a word of another view stands for nothing in this one.
//
// At a million ops a second the count lasts nine years. Of the epoch there is room for the lowest
// bits alone: words are compared by their distance (serial numbers, RFC 1982), and a rank writes
// its own anew long before views come round to the same bits.
// Why: docs/decisions/0035-left-behind-means-left-behind.md
// Why: docs/decisions/0126-counters-have-48-bits.md
#pragma once

#include <atomic>
#include <cstdint>

#include "base/types.h"

namespace holdfast::comm {

inline constexpr int kCountBits = 48;

// Of a view, when nothing has been counted.
inline constexpr std::uint64_t first_count(Epoch epoch) {
  return std::uint64_t{epoch.value} << kCountBits;
}

inline constexpr bool same_view(std::uint64_t a, std::uint64_t b) {
  return a >> kCountBits == b >> kCountBits;
}

// Whether a counter has come to `value` in the same view: members that have gone on to the view
// after next count in the same place, where a rank that they left behind must not follow them.
inline bool reached(const std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  const std::uint64_t at = counter.load(std::memory_order_acquire);  // acquire: it stands for data
  return at >= value && same_view(at, value);
}

// Whether it has come to `value` or beyond, be it views later.
inline bool passed(const std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  const std::uint64_t at = counter.load(std::memory_order_acquire);  // acquire: before what follows
  return static_cast<std::int64_t>(at - value) >= 0;
}

struct Fences {
  static void release() { std::atomic_thread_fence(std::memory_order_release); }
};

// Tells others that what this process goes on to write is not what they look for any more. They
// read first, then fence, then look here. No order of the store itself would do: each keeps what
// comes before it from going past it, and none what comes after, which Arm takes advantage of (the
// total store order of x86 does not).
template <class Fence = Fences, class Word>
void take_back(Word& word, std::uint64_t value) {
  word.store(value, std::memory_order_relaxed);
  Fence::release();
}

}  // namespace holdfast::comm
