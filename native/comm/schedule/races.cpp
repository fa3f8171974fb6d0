#include "comm/schedule/races.h"

#include <cstdint>
#include <optional>
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

// The order of steps: bit j of row i says that step i comes after step j. Rows are made when
// somebody asks for an order that is no dependency by itself.
class Order {
 public:
  explicit Order(const Schedule& schedule)
      : schedule_(schedule), said_by_(schedule.steps.size(), kNobody) {}

  bool after(std::size_t i, std::size_t j) {
    if (latest_ != i) {
      latest_ = i;
      for (const Dependency& d : schedule_.steps[i].deps) said_by_[d.step] = i;
    }
    if (said_by_[j] == i) return true;
    if (rows_.empty()) make_rows();
    return (rows_[i][j / kBitsPerRowWord] >> (j % kBitsPerRowWord) & 1) != 0;
  }

 private:
  static constexpr std::size_t kNobody = SIZE_MAX;
  static constexpr std::size_t kBitsPerRowWord = 64;

  void make_rows() {
    const std::size_t words = (schedule_.steps.size() + kBitsPerRowWord - 1) / kBitsPerRowWord;
    rows_.resize(schedule_.steps.size(), std::vector<std::uint64_t>(words));
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      for (const Dependency& d : schedule_.steps[i].deps) {
        for (std::size_t w = 0; w < words; ++w) rows_[i][w] |= rows_[d.step][w];
        rows_[i][d.step / kBitsPerRowWord] |= 1ULL << (d.step % kBitsPerRowWord);
      }
    }
  }

  const Schedule& schedule_;
  std::size_t latest_ = kNobody;
  std::vector<std::size_t> said_by_;  // by step: the latest step asked about that depends on it
  std::vector<std::vector<std::uint64_t>> rows_;
};

// Who wrote a slot last, and who has read it since. A step that comes after these comes after all
// earlier ones that it could race with, because they were ordered when it was their turn.
struct Touched {
  std::optional<std::size_t> writer;
  std::vector<std::size_t> readers;
};

// Looks at one slot after the other, and at each step's neighbours there alone.
class Slots {
 public:
  explicit Slots(const Schedule& schedule)
      : schedule_(schedule),
        numbers_{schedule.chunks, may_be_in_place(schedule.collective)},
        order_(schedule),
        touched_(numbers_.first_scratch() + schedule.scratch.size()) {}

  // Whether step i comes after all earlier ones that touch what it touches.
  bool takes(std::size_t i) {
    const Step& step = schedule_.steps[i];
    bool ordered = true;
    if (reads(step)) ordered = read(i, step.lhs);
    if (step.kind == StepKind::kReduce) ordered = read(i, step.rhs) && ordered;
    return (!writes(step) || write(i, step.dst)) && ordered;
  }

  // The first step that races with step i.
  std::size_t opponent_of(std::size_t i) {
    for (std::size_t j = 0; j < i; ++j) {
      const bool conflicts = conflict(schedule_.steps[i], schedule_.steps[j], numbers_.in_place);
      if (conflicts && !order_.after(i, j)) return j;
    }
    return i;
  }

 private:
  bool read(std::size_t i, const Slot& slot) {
    Touched& touched = touched_[numbers_.of(slot)];
    touched.readers.push_back(i);
    return !touched.writer || order_.after(i, *touched.writer);
  }

  bool write(std::size_t i, const Slot& slot) {
    Touched& touched = touched_[numbers_.of(slot)];
    bool ordered = !touched.writer || order_.after(i, *touched.writer);
    for (const std::size_t reader : touched.readers) {
      ordered = ordered && (reader == i || order_.after(i, reader));
    }
    touched.readers.clear();
    touched.writer = i;
    return ordered;
  }

  const Schedule& schedule_;
  SlotNumbers numbers_;
  Order order_;
  std::vector<Touched> touched_;
};

}  // namespace

Status check_races(const Schedule& schedule) {
  const auto about = [&](std::string what) {
    return Status{Code::kProtocolError,
                  "rank " + std::to_string(schedule.rank.value) + ": " + std::move(what)};
  };
  const auto& steps = schedule.steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const Dependency& d : steps[i].deps) {
      if (d.step >= i) return about("step " + std::to_string(i) + " depends on a later step");
    }
  }
  Slots slots(schedule);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (slots.takes(i)) continue;
    return about("steps " + std::to_string(slots.opponent_of(i)) + " and " + std::to_string(i) +
                 " race for one chunk");
  }
  return Status::ok();
}

}  // namespace holdfast::comm
