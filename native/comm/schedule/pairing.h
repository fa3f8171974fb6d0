// Pairing: which send each receive belongs to, over all ranks' schedules. Messages are matched by
// link and ordinal.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "comm/schedule/schedule.h"

namespace holdfast::comm {

// Steps of all ranks, numbered through: rank r's step i is first[r] + i.
struct StepNumbers {
  explicit StepNumbers(const std::vector<Schedule>& schedules);
  std::uint32_t of(std::size_t rank, std::size_t step) const {
    return first[rank] + static_cast<std::uint32_t>(step);
  }
  std::uint32_t count() const { return first.back(); }

  std::vector<std::uint32_t> first;    // by rank, and the count of all
  std::vector<std::uint32_t> rank_of;  // by step
};

inline constexpr std::uint32_t kNoStep = UINT32_MAX;

// By step: a send's receive, a receive's send. Returns kProtocolError where a message lacks one of
// the two, has one twice, or has another form at its ends.
Result<std::vector<std::uint32_t>> pair_messages(const std::vector<Schedule>& schedules,
                                                 const StepNumbers& numbers);

// "rank R, step I: what"
Status broken_step(const std::vector<Schedule>& schedules, const StepNumbers& numbers,
                   std::uint32_t step, const char* what);

}  // namespace holdfast::comm
