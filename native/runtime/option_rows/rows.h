// The rows of the option table, in parts: one file here for each group of options that belong
// together. option_table.h joins them, and is what others ask.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "runtime/option_table.h"

namespace holdfast::runtime {

// Limits of times, which rows count in nanoseconds.
constexpr std::uint64_t nanoseconds(Duration time) {
  return static_cast<std::uint64_t>(time.count());
}
inline constexpr std::uint64_t kLongestTime = nanoseconds(std::chrono::hours(24 * 365));

// In the order of the fields of Options, each and in all.
std::span<const OptionRow> network_rows();
std::span<const OptionRow> plans_rows();
std::span<const OptionRow> faults_rows();
std::span<const OptionRow> access_rows();
std::span<const OptionRow> data_rows();

}  // namespace holdfast::runtime
