#include "comm/schedule/fusion.h"

#include <algorithm>

namespace holdfast::comm {
namespace {

bool waits_for_a_send(const Schedule& schedule, const Step& step) {
  return std::any_of(step.deps.begin(), step.deps.end(), [&](const Dependency& d) {
    return schedule.steps[d.step].kind == StepKind::kSend;
  });
}

}  // namespace

std::vector<ScratchUse> scratch_uses(const Schedule& schedule) {
  std::vector<ScratchUse> uses(schedule.scratch.size());
  const auto use_of = [&](const Slot& slot) {
    const bool there = slot.space == Space::kScratch && slot.chunk < uses.size();
    return there ? &uses[slot.chunk] : nullptr;
  };
  const auto consumes = [](ScratchUse* use, int step) {
    if (use != nullptr) use->consumer = step, ++use->consumers;
  };
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const int number = static_cast<int>(i);
    if (ScratchUse* use = writes(step) ? use_of(step.dst) : nullptr; use != nullptr) {
      use->producer = number, ++use->producers;
    }
    if (reads(step)) consumes(use_of(step.lhs), number);
    const bool has_right = step.kind == StepKind::kReduce && step.rhs != step.lhs;
    if (has_right) consumes(use_of(step.rhs), number);
  }
  return uses;
}

std::vector<int> find_fusions(const Schedule& schedule) {
  std::vector<int> fused(schedule.steps.size(), -1);
  std::vector<bool> taken(schedule.steps.size(), false);
  const std::vector<ScratchUse> uses = scratch_uses(schedule);
  for (std::size_t chunk = 0; chunk < uses.size(); ++chunk) {
    const ScratchUse& use = uses[chunk];
    if (!use.passes_once() || schedule.scratch[chunk].form != Form::kPlain) continue;
    const auto producer = static_cast<std::size_t>(use.producer);
    const auto into = static_cast<std::size_t>(use.consumer);
    const Step& consumer = schedule.steps[into];
    if (schedule.steps[producer].kind != StepKind::kRecv) continue;
    if (consumer.kind != StepKind::kReduce || consumer.lhs == consumer.rhs) continue;
    if (taken[into] || waits_for_a_send(schedule, consumer)) continue;
    fused[producer] = use.consumer;
    taken[into] = true;
  }
  return fused;
}

void invert(const std::vector<int>& fused, std::vector<int>& fed_by) {
  fed_by.assign(fused.size(), -1);
  for (std::size_t i = 0; i < fused.size(); ++i) {
    if (fused[i] >= 0) fed_by[static_cast<std::size_t>(fused[i])] = static_cast<int>(i);
  }
}

}  // namespace holdfast::comm
