// Caller names: numbers for the calls of a program that ops are, "MPI_Allreduce" and its kin, so
// that records and counters need not hold texts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast::health {

// More names than one program calls; the calls of later ones have no number.
inline constexpr std::size_t kCallerNames = 96;

class CallerNames {
 public:
  // Only the holder of the runtime. The number of a text that lives as long as the process, from 1
  // on; 0: there are too many. `is_new`: whether it has just been given.
  std::uint8_t number_of(const char* name, bool* is_new) {
    *is_new = false;
    const std::size_t count = count_.load(std::memory_order_relaxed);
    // Each call of the program has one text, or a few, of its own.
    for (std::size_t i = 0; i < count; ++i) {
      if (names_[i] == name) return numbers_[i];
    }
    if (count == kCallerNames) return 0;
    std::uint8_t number = static_cast<std::uint8_t>(count + 1);
    for (std::size_t i = 0; i < count; ++i) {
      if (std::strcmp(names_[i], name) == 0) number = numbers_[i];
    }
    names_[count] = name;
    numbers_[count] = number;
    *is_new = number == count + 1;
    // release: who sees the number sees the name
    count_.store(count + 1, std::memory_order_release);
    return number;
  }
  // Any thread. The name of a number; null: there is none, or its text has another number, too.
  const char* name_of(std::size_t number) const {
    if (number == 0 || number > count_.load(std::memory_order_acquire)) return nullptr;
    return numbers_[number - 1] == number ? names_[number - 1] : nullptr;
  }

 private:
  std::array<const char*, kCallerNames> names_{};
  std::array<std::uint8_t, kCallerNames> numbers_{};
  std::atomic<std::size_t> count_{0};
};

}  // namespace holdfast::health
