#include "comm/engine/program.h"

#include <algorithm>

#include "base/cache_line.h"
#include "comm/engine/windows.h"

namespace holdfast::comm {
namespace {

class Lowering {
 public:
  Lowering(const FusedSchedule& fused, const Layout& layout, const Arithmetic& arithmetic,
           const Coding& coding, LoweringSpace& space)
      : schedule_(fused.schedule),
        layout_(layout),
        arithmetic_(arithmetic),
        coding_(coding),
        element_(arithmetic.element_bytes()),
        uses_(fused.uses),
        fused_into_(arithmetic.user == nullptr ? fused.into : fused.apart),
        links_(space.links),
        window_(space.window),
        place_(space.place),
        index_(space.index),
        fed_by_(space.fed_by) {
    window_.assign(schedule_.scratch.size(), 0);
    place_.assign(schedule_.scratch.size(), 0);
    index_.assign(schedule_.steps.size(), -1);
    invert(fused_into_, fed_by_);
  }

  Program run(BufferPool& pool, Program program) {
    find_windows({schedule_, uses_, fed_by_, layout_.scratch, element_, links_}, window_);
    const std::uint64_t room = assign_scratch();
    const std::uint64_t unpacked = measure_frames(program.frame_bytes);
    program.scratch = pool.take(room + unpacked);
    scratch_ = program.scratch.data();
    program.unpacked = {scratch_ + room, unpacked};
    program.codec = coding_.codec;
    program.encoded = {};
    program.key = coding_.key;
    emit(program);
    if (coding_.codec) program.encoded.codec = coding_.codec->spec().id;
    return program;
  }

 private:
  const Step& step(int i) const { return schedule_.steps[static_cast<std::size_t>(i)]; }
  int steps() const { return static_cast<int>(schedule_.steps.size()); }
  // The receive that was fused into reduction i, or -1.
  int fused_recv(int i) const { return fed_by_[static_cast<std::size_t>(i)]; }

  std::uint64_t assign_scratch() {
    std::uint64_t total = 0;
    for (std::size_t chunk = 0; chunk < uses_.size(); ++chunk) {
      const ScratchUse& use = uses_[chunk];
      if (use.producers == 1 && fused_into_[static_cast<std::size_t>(use.producer)] >= 0) continue;
      place_[chunk] = total;
      const Slot slot{Space::kScratch, static_cast<std::uint32_t>(chunk)};
      const std::uint64_t room = window_[chunk] > 0 ? window_[chunk] : bytes(slot);
      total += (room + kCacheLine - 1) / kCacheLine * kCacheLine;
    }
    return total;
  }

  bool is_lossless() const { return coding_.codec && coding_.codec->spec().lossless; }

  // Sets the room of each frame; returns the most bytes that a lossless frame's elements take.
  std::uint64_t measure_frames(std::vector<std::uint64_t>& rooms) const {
    if (!coding_.codec) return 0;
    std::uint64_t most = 0;
    rooms.assign(schedule_.scratch.size(), 0);
    for (std::uint32_t chunk = 0; chunk < rooms.size(); ++chunk) {
      if (schedule_.scratch[chunk].form != Form::kFrame) continue;
      rooms[chunk] = bytes({Space::kScratch, chunk});
      most = std::max(most, layout_.scratch[chunk] * element_);
    }
    return is_lossless() ? most : 0;
  }

  // The index of the frame that the slot holds, or -1.
  int frame(const Slot& slot) const {
    return form_of(schedule_, slot) == Form::kFrame ? static_cast<int>(slot.chunk) : -1;
  }

  std::byte* address(const Slot& slot) const {
    switch (slot.space) {
      case Space::kInput: return layout_.input[slot.chunk].data;
      case Space::kOutput: return layout_.output[slot.chunk].data;
      case Space::kScratch: return scratch_ + place_[slot.chunk];
    }
    return nullptr;
  }

  // How many elements the slot holds, in whatever form.
  std::uint64_t count(const Slot& slot) const {
    switch (slot.space) {
      case Space::kInput: return layout_.input[slot.chunk].count;
      case Space::kOutput: return layout_.output[slot.chunk].count;
      case Space::kScratch: return layout_.scratch[slot.chunk];
    }
    return 0;
  }

  std::uint64_t bytes(const Slot& slot) const {
    switch (form_of(schedule_, slot)) {
      case Form::kPlain: break;
      case Form::kFrame:
        // The frame of an empty chunk is empty: it has not even a header.
        return count(slot) == 0 ? 0 : coding_.codec->encoded_bound(arithmetic_.dtype, count(slot));
      case Form::kWide: return count(slot) * sizeof(float);
    }
    return count(slot) * element_;
  }

  std::uint64_t window(const Slot& slot) const {
    return slot.space == Space::kScratch ? window_[slot.chunk] : 0;
  }

  void emit(Program& program) {
    std::vector<Instruction>& out = program.instructions;
    out.reserve(schedule_.steps.size());
    for (int i = 0; i < steps(); ++i) {
      if (fused_into_[static_cast<std::size_t>(i)] >= 0) continue;
      index_[static_cast<std::size_t>(i)] = static_cast<int>(out.size());
      out.push_back(instruction(i));
      if (out.back().kind == InstructionKind::kSend) count_frame(step(i).lhs, program.encoded);
      if (out.back().kind != InstructionKind::kCode) continue;
      out.back().code = static_cast<int>(program.codes.size());
      program.codes.push_back(code_step(step(i)));
    }
    for (int i = 0; i < steps(); ++i) {
      const int into = fused_into_[static_cast<std::size_t>(i)];
      if (into >= 0) index_[static_cast<std::size_t>(i)] = index_[static_cast<std::size_t>(into)];
    }
    for (int i = 0; i < steps(); ++i) {
      if (fused_into_[static_cast<std::size_t>(i)] < 0) add_deps(i, program);
    }
    for (const ScratchUse& use : uses_) set_drain(use, out);
  }

  void count_frame(const Slot& sent, EncodedBytes& encoded) const {
    if (form_of(schedule_, sent) != Form::kFrame) return;
    encoded.plain_bytes += count(sent) * element_;
    encoded.frame_bytes += bytes(sent);
  }

  Instruction instruction(int i) const {
    const Step& s = step(i);
    if (is_code(s)) return code(s);
    Instruction result;
    result.peer = s.peer;
    result.ordinal = s.ordinal;
    if (!arithmetic_.user) result.combine.element_bytes = static_cast<std::uint32_t>(element_);
    switch (s.kind) {
      case StepKind::kSend:
        result.kind = InstructionKind::kSend;
        result.src = address(s.lhs);
        result.window = window(s.lhs);
        result.bytes = bytes(s.lhs);
        result.frame = frame(s.lhs);
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
    result.frame = frame(s.dst);
    // A frame has no elements.
    if (result.frame >= 0) result.combine.element_bytes = 1;
    return result;
  }

  // The step that made the lossless frame which `s` takes, if this rank made the frame, of its
  // input or of a sum; otherwise null. The frame's elements can then be read at their source, which
  // stays until an output that depends on them is written.
  const Step* made_here(const Step& s) const {
    const Slot& frame = s.kind == StepKind::kReduce ? s.rhs : s.lhs;
    const bool takes = s.kind == StepKind::kReduce || s.kind == StepKind::kDecode;
    if (!is_lossless() || !takes || form_of(schedule_, frame) != Form::kFrame) return nullptr;
    const Step& made = step(uses_[frame.chunk].producer);
    if (made.kind != StepKind::kEncode) return nullptr;
    const bool lasts = made.lhs.space == Space::kInput || is_wide(made.lhs);
    return lasts ? &made : nullptr;
  }

  bool is_wide(const Slot& slot) const { return form_of(schedule_, slot) == Form::kWide; }

  bool is_code(const Step& s) const {
    return s.kind == StepKind::kEncode || s.kind == StepKind::kDecode ||
           (s.kind == StepKind::kReduce && form_of(schedule_, s.rhs) == Form::kFrame) ||
           (s.kind == StepKind::kCopy && is_wide(s.lhs));
  }

  Instruction code(const Step& s) const {
    const Slot& source = s.kind == StepKind::kReduce ? s.rhs : s.lhs;
    Instruction result;
    result.kind = InstructionKind::kCode;
    result.src = address(source);
    result.dst = address(s.dst);
    result.bytes = bytes(s.dst);
    result.writes_output = s.dst.space == Space::kOutput;
    result.combine.element_bytes = static_cast<std::uint32_t>(element_);
    result.peer = schedule_.rank;
    result.frame = frame(s.kind == StepKind::kEncode ? s.dst : source);
    if (form_of(schedule_, source) == Form::kFrame) {
      const Step& producer = step(uses_[source.chunk].producer);
      if (producer.kind == StepKind::kRecv) result.peer = producer.peer;
    }
    if (const Step* made = made_here(s)) result.src = address(made->lhs);
    return result;
  }

  CodeStep code_step(const Step& s) const {
    CodeStep result;
    result.count = count(s.dst);
    result.dtype =
        is_wide(s.kind == StepKind::kEncode ? s.lhs : s.dst) ? DType::kF32 : arithmetic_.dtype;
    result.encoded = arithmetic_.dtype;
    const Step* made = made_here(s);
    result.plain = made != nullptr;
    switch (s.kind) {
      case StepKind::kEncode: set_encode(s, result); break;
      case StepKind::kDecode:
        result.kind = made != nullptr && is_wide(made->lhs) ? CodeKind::kNarrow : CodeKind::kDecode;
        break;
      case StepKind::kCopy: result.kind = CodeKind::kNarrow; break;
      default:
        result.kind = CodeKind::kDecodeAdd;
        if (!s.final || arithmetic_.op != ReduceOp::kAvg || arithmetic_.contributors == 1) break;
        result.divide = divide_kernel(DType::kF32);
        result.divisor = arithmetic_.contributors;
    }
    return result;
  }

  void set_encode(const Step& s, CodeStep& result) const {
    result.kind = CodeKind::kEncode;
    const Slot& like = schedule_.scratch[s.dst.chunk].like;
    result.chunk = like.chunk;
    // No rank gets this frame, and its maker reads the elements at their source: none is encoded.
    const ScratchUse& use = uses_[s.dst.chunk];
    if (use.passes_once() && made_here(step(use.consumer)) != nullptr) result.count = 0;
    if (is_wide(s.lhs)) return set_sum_residual(s, result);
    // Each rank rounds its input differently from other ranks, and from the sum's owner.
    result.chunk |= static_cast<std::uint64_t>(schedule_.rank.value + 1) << 32;
    if (s.lhs.space != Space::kInput || coding_.feedback.empty()) return;
    const auto [block, at] = place_in_input(s.lhs.chunk);
    result.residual = coding_.residual[block] + at;
    result.feedback = coding_.feedback[block] + at;
  }

  // A sum is encoded by the rank that owns the chunk; only all-reduce encodes sums.
  void set_sum_residual(const Step& s, CodeStep& result) const {
    if (coding_.feedback.empty()) return;
    CHECK(schedule_.collective == Collective::kAllReduce);
    result.sum = reinterpret_cast<float*>(address(s.lhs));
    result.sum_residual = coding_.feedback[0] + place_in_input(result.chunk).second;
    if (arithmetic_.op == ReduceOp::kAvg) result.divisor = arithmetic_.contributors;
  }

  // The block that an input chunk is part of, and its first element there.
  std::pair<std::uint32_t, std::uint64_t> place_in_input(std::uint64_t chunk) const {
    std::uint64_t first = 0;
    std::uint32_t block = 0;
    if (has_blocks_by_rank(schedule_.collective)) {
      const auto of_rank = static_cast<std::uint32_t>(chunk) / schedule_.pieces;
      first = of_rank * schedule_.pieces;
      block = has_own_input(schedule_.collective) ? 0 : of_rank;
    }
    std::uint64_t at = 0;
    for (std::uint64_t c = first; c < chunk; ++c) at += layout_.input[c].count;
    return {block, at};
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
    result.combine.kernel = {arithmetic_.dtype, arithmetic_.op, arithmetic_.user};
    result.combine.element_bytes = static_cast<std::uint32_t>(element_);
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

  // Adds the dependencies of a step, and of the receive that became part of it.
  void add_deps(int i, Program& program) const {
    const int self = index_[static_cast<std::size_t>(i)];
    Instruction& own = program.instructions[static_cast<std::size_t>(self)];
    own.first_dep = static_cast<std::uint32_t>(program.deps.size());
    if (const int recv = fused_recv(i); recv >= 0) add_deps(step(recv), self, program);
    add_deps(step(i), self, program);
    own.deps = static_cast<std::uint32_t>(program.deps.size()) - own.first_dep;
  }

  void add_deps(const Step& s, int self, Program& program) const {
    std::vector<Dependency>& deps = program.deps;
    const auto first = program.instructions[static_cast<std::size_t>(self)].first_dep;
    for (const Dependency& d : s.deps) {
      const int on = index_[d.step];
      if (on == self) continue;  // a receive and the reduction it became
      const Dependency mapped{static_cast<std::uint32_t>(on), d.streamed};
      if (std::find(deps.begin() + first, deps.end(), mapped) == deps.end()) {
        deps.push_back(mapped);
      }
    }
  }

  void set_drain(const ScratchUse& use, std::vector<Instruction>& out) const {
    if (!use.passes_once()) return;
    Instruction& producer =
        out[static_cast<std::size_t>(index_[static_cast<std::size_t>(use.producer)])];
    if (producer.window == 0 || use.consumer < 0) return;
    producer.drain = index_[static_cast<std::size_t>(use.consumer)];
  }

  const Schedule& schedule_;
  const Layout& layout_;
  const Arithmetic& arithmetic_;
  const Coding& coding_;
  const std::uint64_t element_;
  const std::vector<ScratchUse>& uses_;
  const std::vector<int>& fused_into_;
  const std::vector<Link*>* links_;
  std::vector<std::uint64_t>& window_;
  std::vector<std::uint64_t>& place_;
  std::vector<int>& index_;
  std::vector<int>& fed_by_;
  std::byte* scratch_ = nullptr;
};

}  // namespace

void Program::clear() {
  instructions.clear();
  deps.clear();
  codes.clear();
  codec.reset();
  frame_bytes.clear();
  unpacked = {};
  scratch = {};
  sends.clear();
  recvs.clear();
}

Program LoweringSpace::take() {
  if (spares.empty()) return {};
  Program program = std::move(spares.back());
  spares.pop_back();
  return program;
}

void LoweringSpace::give(Program program) {
  if (spares.size() == kMostSpares) return;
  program.clear();
  spares.push_back(std::move(program));
}

Program lower(const FusedSchedule& schedule, const Layout& layout, const Arithmetic& arithmetic,
              BufferPool& pool, const Coding& coding, LoweringSpace& space) {
  return Lowering(schedule, layout, arithmetic, coding, space).run(pool, space.take());
}

Program lower(const Schedule& schedule, const Layout& layout, const Arithmetic& arithmetic,
              BufferPool& pool, const Coding& coding) {
  LoweringSpace space;
  return lower(FusedSchedule(schedule), layout, arithmetic, pool, coding, space);
}

}  // namespace holdfast::comm
