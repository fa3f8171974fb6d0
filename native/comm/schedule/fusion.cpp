#include "comm/schedule/fusion.h"

#include <algorithm>

namespace holdfast::comm {
namespace {

bool reads(const Step& step, const Slot& slot) {
  switch (step.kind) {
    case StepKind::kRecv: return false;
    case StepKind::kReduce: return step.lhs == slot || step.rhs == slot;
    default: return step.lhs == slot;
  }
}

bool writes(const Step& step, const Slot& slot) {
  return step.kind != StepKind::kSend && step.dst == slot;
}

bool waits_for_a_send(const Schedule& schedule, const Step& step) {
  return std::any_of(step.deps.begin(), step.deps.end(), [&](const Dependency& d) {
    return schedule.steps[d.step].kind == StepKind::kSend;
  });
}

}  // namespace

std::vector<ScratchUse> scratch_uses(const Schedule& schedule) {
  std::vector<ScratchUse> uses(schedule.scratch.size());
  for (std::uint32_t chunk = 0; chunk < uses.size(); ++chunk) {
    const Slot slot{Space::kScratch, chunk};
    ScratchUse& use = uses[chunk];
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const int step = static_cast<int>(i);
      if (writes(schedule.steps[i], slot)) use.producer = step, ++use.producers;
      if (reads(schedule.steps[i], slot)) use.consumer = step, ++use.consumers;
    }
  }
  return uses;
}

std::vector<int> find_fusions(const Schedule& schedule) {
  std::vector<int> fused(schedule.steps.size(), -1);
  const std::vector<ScratchUse> uses = scratch_uses(schedule);
  for (std::size_t chunk = 0; chunk < uses.size(); ++chunk) {
    const ScratchUse& use = uses[chunk];
    if (!use.passes_once() || schedule.scratch[chunk].form != Form::kPlain) continue;
    const auto producer = static_cast<std::size_t>(use.producer);
    const Step& consumer = schedule.steps[static_cast<std::size_t>(use.consumer)];
    if (schedule.steps[producer].kind != StepKind::kRecv) continue;
    if (consumer.kind != StepKind::kReduce || consumer.lhs == consumer.rhs) continue;
    const bool taken = std::find(fused.begin(), fused.end(), use.consumer) != fused.end();
    if (!taken && !waits_for_a_send(schedule, consumer)) fused[producer] = use.consumer;
  }
  return fused;
}

}  // namespace holdfast::comm
