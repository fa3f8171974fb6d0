#include "comm/schedule/builder.h"

#include <algorithm>
#include <utility>

namespace holdfast::comm {
namespace {

bool reads_alias(const Step& step, const Slot& slot, bool in_place) {
  if (!reads(step)) return false;
  return may_alias(step.lhs, slot, in_place) ||
         (step.kind == StepKind::kReduce && may_alias(step.rhs, slot, in_place));
}

bool reads_exactly(const Step& step, const Slot& slot) {
  return step.lhs == slot || (step.kind == StepKind::kReduce && step.rhs == slot);
}

// Whether the step reads and writes its bytes in order, so that it can stream.
bool is_elementwise(const Schedule& schedule, const Step& step) {
  const bool codes = step.kind == StepKind::kEncode || step.kind == StepKind::kDecode;
  const auto plain = [&](const Slot& slot) { return form_of(schedule, slot) == Form::kPlain; };
  return !codes && (!reads(step) || plain(step.lhs)) && (!writes(step) || plain(step.dst)) &&
         (step.kind != StepKind::kReduce || plain(step.rhs));
}

// Adds the dependency of `step` on the earlier step number `i`, if there is one.
void depend(const Schedule& schedule, Step& step, std::uint32_t i, bool in_place) {
  const Step& earlier = schedule.steps[i];
  const bool after_write = writes(earlier) && reads_alias(step, earlier.dst, in_place);
  const bool overwrite =
      writes(earlier) && writes(step) && may_alias(step.dst, earlier.dst, in_place);
  const bool after_read = writes(step) && reads_alias(earlier, step.dst, in_place);
  if (!after_write && !overwrite && !after_read) return;
  // A reader follows behind what is written, and a writer behind what has been read: where slots
  // are the same memory, their elements are at the same places.
  const bool follows = after_write && !after_read && reads_exactly(step, earlier.dst);
  const bool replaces = after_read && !after_write;
  const bool streamed = (follows || replaces) && !overwrite && is_elementwise(schedule, step) &&
                        is_elementwise(schedule, earlier);
  step.deps.push_back({i, streamed});
}

// Steps by the slots that they touch, so that a step is compared with those alone that it may
// depend on.
class EarlierSteps {
 public:
  explicit EarlierSteps(const SlotNumbers& numbers) : numbers_(numbers) {}

  // All steps that touch what `step` writes, and that write what it reads; in their order.
  void near(const Step& step, std::vector<std::uint32_t>& found) const {
    found.clear();
    if (reads(step)) collect(last_write_, step.lhs, found);
    if (step.kind == StepKind::kReduce) collect(last_write_, step.rhs, found);
    if (writes(step)) {
      collect(last_write_, step.dst, found);
      collect(last_read_, step.dst, found);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }

  void add(std::uint32_t number, const Step& step) {
    if (reads(step)) note(last_read_, step.lhs, number);
    if (step.kind == StepKind::kReduce) note(last_read_, step.rhs, number);
    if (writes(step)) note(last_write_, step.dst, number);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  // One touch of a slot, and the one before it.
  struct Touch {
    std::uint32_t step;
    std::uint32_t before;
  };

  void collect(const std::vector<std::uint32_t>& last, const Slot& slot,
               std::vector<std::uint32_t>& found) const {
    const std::uint32_t number = numbers_.of(slot);
    if (number >= last.size()) return;
    for (std::uint32_t at = last[number]; at != kNone; at = touches_[at].before) {
      found.push_back(touches_[at].step);
    }
  }

  void note(std::vector<std::uint32_t>& last, const Slot& slot, std::uint32_t step) {
    const std::uint32_t number = numbers_.of(slot);
    if (number >= last.size()) last.resize(number + 1, kNone);
    touches_.push_back({step, last[number]});
    last[number] = static_cast<std::uint32_t>(touches_.size() - 1);
  }

  SlotNumbers numbers_;
  std::vector<std::uint32_t> last_write_;  // by slot
  std::vector<std::uint32_t> last_read_;
  std::vector<Touch> touches_;
};

}  // namespace

Builder::Builder(const BuildSpec& spec, std::uint32_t chunks) {
  schedule_.collective = spec.collective;
  schedule_.rank = spec.rank;
  schedule_.size = spec.size;
  schedule_.root = spec.root;
  schedule_.chunks = chunks;
  if (has_blocks_by_rank(spec.collective)) {
    schedule_.pieces = std::max(1U, chunks / static_cast<std::uint32_t>(spec.size));
  }
}

Slot Builder::input(int chunk) { return {Space::kInput, static_cast<std::uint32_t>(chunk)}; }
Slot Builder::output(int chunk) { return {Space::kOutput, static_cast<std::uint32_t>(chunk)}; }

Slot Builder::scratch(Slot like) { return add_scratch(like, Form::kPlain); }
Slot Builder::frame(Slot like) { return add_scratch(like, Form::kFrame); }
Slot Builder::wide(Slot like) { return add_scratch(like, Form::kWide); }

Slot Builder::add_scratch(Slot like, Form form) {
  if (like.space == Space::kScratch) like = schedule_.scratch[like.chunk].like;
  schedule_.scratch.push_back({like, form});
  return {Space::kScratch, static_cast<std::uint32_t>(schedule_.scratch.size() - 1)};
}

Step& Builder::append(StepKind kind) {
  schedule_.steps.emplace_back();
  schedule_.steps.back().kind = kind;
  return schedule_.steps.back();
}

void Builder::send(int peer, Slot source) {
  Step& step = append(StepKind::kSend);
  step.peer = {peer};
  step.lhs = source;
}

void Builder::recv(int peer, Slot destination) {
  Step& step = append(StepKind::kRecv);
  step.peer = {peer};
  step.dst = destination;
}

void Builder::copy(Slot destination, Slot source) {
  Step& step = append(StepKind::kCopy);
  step.dst = destination;
  step.lhs = source;
}

void Builder::encode(Slot frame, Slot source) {
  Step& step = append(StepKind::kEncode);
  step.dst = frame;
  step.lhs = source;
}

void Builder::decode(Slot destination, Slot frame) {
  Step& step = append(StepKind::kDecode);
  step.dst = destination;
  step.lhs = frame;
}

void Builder::reduce(Slot destination, Slot lhs, Slot rhs) {
  Step& step = append(StepKind::kReduce);
  step.dst = destination;
  step.lhs = lhs;
  step.rhs = rhs;
}

void Builder::reduce_final(Slot destination, Slot lhs, Slot rhs) {
  reduce(destination, lhs, rhs);
  schedule_.steps.back().final = true;
}

Schedule Builder::finish() && {
  std::vector<std::uint32_t> sent(static_cast<std::size_t>(schedule_.size), 0);
  std::vector<std::uint32_t> received(sent);
  auto& steps = schedule_.steps;
  const SlotNumbers numbers{schedule_.chunks, may_be_in_place(schedule_.collective)};
  EarlierSteps earlier(numbers);
  std::vector<std::uint32_t> near;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const auto peer = static_cast<std::size_t>(steps[i].peer.value);
    if (steps[i].kind == StepKind::kSend) steps[i].ordinal = sent[peer]++;
    if (steps[i].kind == StepKind::kRecv) steps[i].ordinal = received[peer]++;
    earlier.near(steps[i], near);
    for (const std::uint32_t j : near) depend(schedule_, steps[i], j, numbers.in_place);
    earlier.add(i, steps[i]);
  }
  return std::move(schedule_);
}

}  // namespace holdfast::comm
