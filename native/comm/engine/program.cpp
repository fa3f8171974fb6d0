#include "comm/engine/program.h"

#include <algorithm>

#include "comm/schedule/fusion.h"

namespace holdfast::comm {
namespace {

constexpr std::uint64_t kLine = 64;

class Lowering {
 public:
  Lowering(const Schedule& schedule, const Layout& layout, const Arithmetic& arithmetic)
      : schedule_(schedule),
        layout_(layout),
        arithmetic_(arithmetic),
        element_(dtype_bytes(arithmetic.dtype)),
        uses_(scratch_uses(schedule)),
        fused_into_(find_fusions(schedule)),
        window_(schedule.scratch.size(), 0),
        place_(schedule.scratch.size(), 0) {}

  Program run(BufferPool& pool) {
    find_windows();
    Program program;
    program.scratch = pool.take(assign_scratch());
    scratch_ = program.scratch.data();
    emit(program.instructions);
    return program;
  }

 private:
  const Step& step(int i) const { return schedule_.steps[static_cast<std::size_t>(i)]; }
  int steps() const { return static_cast<int>(schedule_.steps.size()); }

  // The receive that was fused into reduction i, or -1.
  int fused_recv(int i) const {
    const auto found = std::find(fused_into_.begin(), fused_into_.end(), i);
    return found == fused_into_.end() ? -1 : static_cast<int>(found - fused_into_.begin());
  }

  void find_windows() {
    for (std::size_t chunk = 0; chunk < uses_.size(); ++chunk) {
      const ScratchUse& use = uses_[chunk];
      if (!use.passes_once()) continue;
      const Step& producer = step(use.producer);
      const bool arrives = producer.kind == StepKind::kRecv || fused_recv(use.producer) >= 0;
      if (!arrives || step(use.consumer).kind != StepKind::kSend) continue;
      if (layout_.scratch[chunk] * element_ > kWindowBytes) window_[chunk] = kWindowBytes;
    }
  }

  std::uint64_t assign_scratch() {
    std::uint64_t total = 0;
    for (std::size_t chunk = 0; chunk < uses_.size(); ++chunk) {
      const ScratchUse& use = uses_[chunk];
      if (use.producers == 1 && fused_into_[static_cast<std::size_t>(use.producer)] >= 0) continue;
      place_[chunk] = total;
      const std::uint64_t bytes =
          window_[chunk] > 0 ? window_[chunk] : layout_.scratch[chunk] * element_;
      total += (bytes + kLine - 1) / kLine * kLine;
    }
    return total;
  }

  std::byte* address(const Slot& slot) const {
    switch (slot.space) {
      case Space::kInput: return layout_.input[slot.chunk].data;
      case Space::kOutput: return layout_.output[slot.chunk].data;
      case Space::kScratch: return scratch_ + place_[slot.chunk];
    }
    return nullptr;
  }

  std::uint64_t bytes(const Slot& slot) const {
    switch (slot.space) {
      case Space::kInput: return layout_.input[slot.chunk].count * element_;
      case Space::kOutput: return layout_.output[slot.chunk].count * element_;
      case Space::kScratch: return layout_.scratch[slot.chunk] * element_;
    }
    return 0;
  }

  std::uint64_t window(const Slot& slot) const {
    return slot.space == Space::kScratch ? window_[slot.chunk] : 0;
  }

  void emit(std::vector<Instruction>& out) {
    std::vector<int> index(schedule_.steps.size(), -1);
    out.reserve(schedule_.steps.size());
    for (int i = 0; i < steps(); ++i) {
      if (fused_into_[static_cast<std::size_t>(i)] >= 0) continue;
      index[static_cast<std::size_t>(i)] = static_cast<int>(out.size());
      out.push_back(instruction(i));
    }
    for (int i = 0; i < steps(); ++i) {
      const int into = fused_into_[static_cast<std::size_t>(i)];
      if (into >= 0) index[static_cast<std::size_t>(i)] = index[static_cast<std::size_t>(into)];
    }
    for (int i = 0; i < steps(); ++i) add_deps(i, index, out);
    for (const ScratchUse& use : uses_) set_drain(use, index, out);
  }

  Instruction instruction(int i) const {
    const Step& s = step(i);
    Instruction result;
    result.peer = s.peer;
    result.ordinal = s.ordinal;
    result.combine.element_bytes = static_cast<std::uint32_t>(element_);
    switch (s.kind) {
      case StepKind::kSend:
        result.kind = InstructionKind::kSend;
        result.src = address(s.lhs);
        result.window = window(s.lhs);
        result.bytes = bytes(s.lhs);
        return result;
      case StepKind::kReduce: set_reduce(i, result); return result;
      case StepKind::kCopy:
        result.kind = InstructionKind::kCopy;
        result.src = address(s.lhs);
        break;
      default: result.kind = InstructionKind::kRecv; break;
    }
    result.dst = address(s.dst);
    result.writes_output = s.dst.space == Space::kOutput;
    result.window = window(s.dst);
    result.bytes = bytes(s.dst);
    return result;
  }

  void set_reduce(int i, Instruction& result) const {
    const Step& s = step(i);
    result.kind = InstructionKind::kReduce;
    result.dst = address(s.dst);
    result.writes_output = s.dst.space == Space::kOutput;
    result.window = window(s.dst);
    result.bytes = bytes(s.dst);
    result.src = address(s.lhs);
    result.right = address(s.rhs);
    result.combine.kernel = reduce_kernel(arithmetic_.dtype, arithmetic_.op);
    if (s.final && arithmetic_.op == ReduceOp::kAvg && arithmetic_.contributors > 1) {
      result.combine.divide = divide_kernel(arithmetic_.dtype);
      result.combine.divisor = arithmetic_.contributors;
    }
    const int recv = fused_recv(i);
    if (recv < 0) return;
    result.kind = InstructionKind::kRecv;
    result.peer = step(recv).peer;
    result.ordinal = step(recv).ordinal;
    result.combine.operand_first = s.rhs == step(recv).dst;
    result.combine.operand = result.combine.operand_first ? result.src : result.right;
  }

  void add_deps(int i, const std::vector<int>& index, std::vector<Instruction>& out) const {
    const int self = index[static_cast<std::size_t>(i)];
    auto& deps = out[static_cast<std::size_t>(self)].deps;
    for (const Dependency& d : step(i).deps) {
      const int on = index[d.step];
      if (on == self) continue;  // a receive and the reduction it became
      const Dependency mapped{static_cast<std::uint32_t>(on), d.streamed};
      if (std::find(deps.begin(), deps.end(), mapped) == deps.end()) deps.push_back(mapped);
    }
  }

  void set_drain(const ScratchUse& use, const std::vector<int>& index,
                 std::vector<Instruction>& out) const {
    if (!use.passes_once()) return;
    Instruction& producer =
        out[static_cast<std::size_t>(index[static_cast<std::size_t>(use.producer)])];
    if (producer.window > 0 && use.consumer >= 0) {
      producer.drain = index[static_cast<std::size_t>(use.consumer)];
    }
  }

  const Schedule& schedule_;
  const Layout& layout_;
  const Arithmetic& arithmetic_;
  const std::uint64_t element_;
  const std::vector<ScratchUse> uses_;
  const std::vector<int> fused_into_;  // by step: the reduction a receive became part of
  std::vector<std::uint64_t> window_;  // by scratch chunk; 0: whole
  std::vector<std::uint64_t> place_;   // by scratch chunk: offset in scratch memory
  std::byte* scratch_ = nullptr;
};

}  // namespace

Program lower(const Schedule& schedule, const Layout& layout, const Arithmetic& arithmetic,
              BufferPool& pool) {
  return Lowering(schedule, layout, arithmetic).run(pool);
}

}  // namespace holdfast::comm
