#include "comm/engine/code_lowering.h"

#include "base/check.h"

namespace holdfast::comm {

// The step that made the lossless frame which `s` takes, if this rank made the frame, of its
// input or of a sum; otherwise null. The frame's elements can then be read at their source, which
// stays until an output that depends on them is written.
const Step* CodeLowering::made_here(const Step& s) const {
  const Slot& frame = s.kind == StepKind::kReduce ? s.rhs : s.lhs;
  const bool takes = s.kind == StepKind::kReduce || s.kind == StepKind::kDecode;
  if (!m_.is_lossless() || !takes || form_of(m_.schedule_, frame) != Form::kFrame) return nullptr;
  const Step& made = m_.step(m_.uses_[frame.chunk].producer);
  if (made.kind != StepKind::kEncode) return nullptr;
  const bool is_input = made.lhs.space == Space::kInput && !m_.is_scaled(made.lhs);
  const bool lasts = is_input || m_.is_wide(made.lhs);
  return lasts ? &made : nullptr;
}

bool CodeLowering::is_code(const Step& s) const {
  return s.kind == StepKind::kEncode || s.kind == StepKind::kDecode ||
         (s.kind == StepKind::kReduce && form_of(m_.schedule_, s.rhs) == Form::kFrame) ||
         (s.kind == StepKind::kCopy && m_.is_wide(s.lhs));
}

Instruction CodeLowering::instruction(const Step& s) const {
  const Slot& source = s.kind == StepKind::kReduce ? s.rhs : s.lhs;
  Instruction result;
  result.kind = InstructionKind::kCode;
  result.src = m_.address(source);
  result.dst = m_.address(s.dst);
  result.bytes = m_.bytes(s.dst);
  result.writes_output = s.dst.space == Space::kOutput;
  result.combine.element_bytes = static_cast<std::uint32_t>(m_.element_);
  result.peer = m_.schedule_.rank;
  result.frame = m_.frame(s.kind == StepKind::kEncode ? s.dst : source);
  if (form_of(m_.schedule_, source) == Form::kFrame) {
    const Step& producer = m_.step(m_.uses_[source.chunk].producer);
    if (producer.kind == StepKind::kRecv) result.peer = producer.peer;
  }
  if (const Step* made = made_here(s)) result.src = m_.address(made->lhs);
  return result;
}

CodeStep CodeLowering::code_step(const Step& s) const {
  CodeStep result;
  result.count = m_.count(s.dst);
  result.dtype =
      m_.is_wide(s.kind == StepKind::kEncode ? s.lhs : s.dst) ? DType::kF32 : m_.arithmetic_.dtype;
  result.encoded = m_.arithmetic_.dtype;
  const Step* made = made_here(s);
  result.plain = made != nullptr;
  switch (s.kind) {
    case StepKind::kEncode: set_encode(s, result); break;
    case StepKind::kDecode:
      result.kind =
          made != nullptr && m_.is_wide(made->lhs) ? CodeKind::kNarrow : CodeKind::kDecode;
      break;
    case StepKind::kCopy: result.kind = CodeKind::kNarrow; break;
    default:
      result.kind = CodeKind::kDecodeAdd;
      if (!s.final) break;
      if (m_.divides_by_number()) result.divide = divide_kernel(DType::kF32);
      result.divisor = m_.arithmetic_.contributors;
      if (!m_.divides_by_weights()) break;
      result.share = share_kernel(DType::kF32);
      result.total = m_.arithmetic_.weighing->total;
  }
  return result;
}

void CodeLowering::set_encode(const Step& s, CodeStep& result) const {
  result.kind = CodeKind::kEncode;
  const Slot& like = m_.schedule_.scratch[s.dst.chunk].like;
  result.chunk = like.chunk;
  // No rank gets this frame, and its maker reads the elements at their source: none is encoded.
  const ScratchUse& use = m_.uses_[s.dst.chunk];
  if (use.passes_once() && made_here(m_.step(use.consumer)) != nullptr) result.count = 0;
  if (m_.is_wide(s.lhs)) return set_sum_residual(s, result);
  // Each rank rounds its input differently from other ranks, and from the sum's owner.
  result.chunk |= static_cast<std::uint64_t>(m_.schedule_.rank.value + 1) << 32;
  if (m_.is_scaled(s.lhs)) result.scale = m_.arithmetic_.scale();
  if (s.lhs.space != Space::kInput || m_.coding_.feedback.empty()) return;
  const auto [block, at] = place_in_input(s.lhs.chunk);
  result.residual = m_.coding_.residual[block] + at;
  result.feedback = m_.coding_.feedback[block] + at;
}

// A sum is encoded by the rank that owns the chunk; only all-reduce encodes sums.
void CodeLowering::set_sum_residual(const Step& s, CodeStep& result) const {
  if (m_.coding_.feedback.empty()) return;
  CHECK(m_.schedule_.collective == Collective::kAllReduce);
  result.sum = reinterpret_cast<float*>(m_.address(s.lhs));
  result.sum_residual = m_.coding_.feedback[0] + place_in_input(result.chunk).second;
  if (m_.arithmetic_.op == ReduceOp::kAvg) result.times = m_.arithmetic_.times_in_input();
}

// The block that an input chunk is part of, and its first element there.
std::pair<std::uint32_t, std::uint64_t> CodeLowering::place_in_input(std::uint64_t chunk) const {
  std::uint64_t first = 0;
  std::uint32_t block = 0;
  if (has_blocks_by_rank(m_.schedule_.collective)) {
    const auto of_rank = static_cast<std::uint32_t>(chunk) / m_.schedule_.pieces;
    first = of_rank * m_.schedule_.pieces;
    block = has_own_input(m_.schedule_.collective) ? 0 : of_rank;
  }
  std::uint64_t at = 0;
  for (std::uint64_t c = first; c < chunk; ++c) at += m_.layout_.input[c].count;
  return {block, at};
}

}  // namespace holdfast::comm
