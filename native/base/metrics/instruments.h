// Instruments: counters, gauges and histograms of plain atomics. Their owner makes them once;
// counting looks up, locks and allocates nothing.
//
// All orders are relaxed: a reader wants each number by itself, as of some recent moment, and no
// other data depends on it. Counters and histograms have one writer at a time, with a lock between
// two writers (the holder of the runtime): a load and a store then do what a locked addition would,
// for less.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

#include "base/types.h"

namespace holdfast::metrics {

// Only grows. Writer: one at a time; readers: any thread.
class Counter {
 public:
  void add(std::uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Any thread.
class Gauge {
 public:
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

// A number that need not be whole, and may not be set yet. Any thread.
class Level {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  bool is_set() const { return !(value() < 0); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{-1};  // never negative
};

// One measurement by which a bucket can be traced to an op.
struct Exemplar {
  std::uint64_t group = 0;
  std::uint64_t sequence = 0;
  Duration value{};
  Instant at{};
};

// Durations in buckets whose bounds double. Writer: one at a time; readers: any thread.
class Histogram {
 public:
  // 1.024 us to 17 s; longer durations have no bound. A collective of two ranks in shared memory
  // takes less than the first bound, and one that takes longer than the last is a matter of the
  // fault detector.
  static constexpr int kFirstBits = 10;
  static constexpr int kBounds = 25;
  static constexpr int kBuckets = kBounds + 1;

  static constexpr Duration bound(int bucket) {
    return Duration(std::int64_t{1} << (kFirstBits + bucket));
  }
  // The first bucket whose bound is not below the value.
  static constexpr int bucket_of(Duration value) {
    const auto above = static_cast<std::uint64_t>(std::max<std::int64_t>(1, value.count()) - 1);
    return std::min<int>(static_cast<int>(std::bit_width(above >> kFirstBits)), kBounds);
  }

  void record(const Exemplar& example) {
    const auto bucket = static_cast<std::size_t>(bucket_of(example.value));
    counts_[bucket].add(1);
    sum_.add(static_cast<std::uint64_t>(std::max<std::int64_t>(0, example.value.count())));
    examples_[bucket].set(example);
  }

  std::uint64_t count(int bucket) const {
    return counts_[static_cast<std::size_t>(bucket)].value();
  }
  Duration sum() const { return Duration(static_cast<std::int64_t>(sum_.value())); }
  std::optional<Exemplar> exemplar(int bucket) const {
    return examples_[static_cast<std::size_t>(bucket)].get();
  }

 private:
  // A sequence lock (Boehm 2012, "Can seqlocks get along with programming language memory
  // models?"): the writer never waits; a reader that reads during a write gets nothing.
  class LastExample {
   public:
    void set(const Exemplar& e) {
      const std::uint32_t turn = turn_.load(std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);  // odd before any of the values
      group_.store(e.group, std::memory_order_relaxed);
      sequence_.store(e.sequence, std::memory_order_relaxed);
      value_.store(e.value.count(), std::memory_order_relaxed);
      at_.store(e.at.since_origin.count(), std::memory_order_relaxed);
      turn_.store(turn + 2, std::memory_order_release);  // after all of the values
    }
    std::optional<Exemplar> get() const {
      const std::uint32_t before = turn_.load(std::memory_order_acquire);
      Exemplar e{group_.load(std::memory_order_relaxed),
                 sequence_.load(std::memory_order_relaxed),
                 Duration(value_.load(std::memory_order_relaxed)),
                 {Duration(at_.load(std::memory_order_relaxed))}};
      std::atomic_thread_fence(std::memory_order_acquire);  // the values before the second look
      const bool whole = before == turn_.load(std::memory_order_relaxed) && before % 2 == 0;
      return whole && before > 0 ? std::optional(e) : std::nullopt;
    }

   private:
    std::atomic<std::uint32_t> turn_{0};
    std::atomic<std::uint64_t> sequence_{0};
    std::atomic<std::uint64_t> group_{0};
    std::atomic<std::int64_t> value_{0};
    std::atomic<std::int64_t> at_{0};
  };

  std::array<Counter, kBuckets> counts_;
  Counter sum_;
  std::array<LastExample, kBuckets> examples_;
};

}  // namespace holdfast::metrics
