#include "comm/schedule/races.h"

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::comm {
namespace {

bool touches(const Step& step, const Slot& slot, bool in_place) {
  if (reads(step) && may_alias(step.lhs, slot, in_place)) return true;
  if (step.kind == StepKind::kReduce && may_alias(step.rhs, slot, in_place)) return true;
  return writes(step) && may_alias(step.dst, slot, in_place);
}

bool conflict(const Step& a, const Step& b, bool in_place) {
  return (writes(a) && touches(b, a.dst, in_place)) || (writes(b) && touches(a, b.dst, in_place));
}

// The order of steps: bit j of row i says that step i comes after step j.
class Order {
 public:
  explicit Order(const Schedule& schedule) : words_((schedule.steps.size() + 63) / 64) {
    rows_.resize(schedule.steps.size(), std::vector<std::uint64_t>(words_));
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      for (const Dependency& d : schedule.steps[i].deps) {
        for (std::size_t w = 0; w < words_; ++w) rows_[i][w] |= rows_[d.step][w];
        rows_[i][d.step / 64] |= 1ULL << (d.step % 64);
      }
    }
  }
  bool after(std::size_t i, std::size_t j) const { return (rows_[i][j / 64] >> (j % 64) & 1) != 0; }

 private:
  std::size_t words_;
  std::vector<std::vector<std::uint64_t>> rows_;
};

Status race(const Schedule& schedule, std::size_t i, std::size_t j) {
  return {Code::kProtocolError, "rank " + std::to_string(schedule.rank.value) + ": steps " +
                                    std::to_string(j) + " and " + std::to_string(i) +
                                    " race for one chunk"};
}

}  // namespace

Status check_races(const Schedule& schedule) {
  const auto& steps = schedule.steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const Dependency& d : steps[i].deps) {
      if (d.step >= i) {
        return {Code::kProtocolError, "rank " + std::to_string(schedule.rank.value) + ": step " +
                                          std::to_string(i) + " depends on a later step"};
      }
    }
  }
  const Order order(schedule);
  const bool in_place = may_be_in_place(schedule.collective);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (conflict(steps[i], steps[j], in_place) && !order.after(i, j)) return race(schedule, i, j);
    }
  }
  return Status::ok();
}

}  // namespace holdfast::comm
