#include "comm/engine/program.h"

#include <algorithm>

#include "base/cache_line.h"
#include "comm/engine/code_lowering.h"
#include "comm/engine/slot_memory.h"
#include "comm/engine/windows.h"

namespace holdfast::comm {
namespace {

class Lowering : public SlotMemory {
 public:
  Lowering(const FusedSchedule& fused, const Layout& layout, const Arithmetic& arithmetic,
           const Coding& coding, LoweringSpace& space)
      : SlotMemory(fused, layout, arithmetic, coding, space.place),
        codes_(*this),
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
    const std::uint64_t room = assign_windows(assign_scratch());
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

  // Sends of this rank's scaled input go through windows of their own behind the scratch chunks,
  // which end at `total`: nothing holds a scaled copy of the input. Returns where they end.
  std::uint64_t assign_windows(std::uint64_t total) {
    if (!arithmetic_.scales()) return total;
    const auto sends = [this](const Step& s) {
      return s.kind == StepKind::kSend && is_scaled(s.lhs);
    };
    const auto count = static_cast<std::uint64_t>(
        std::count_if(schedule_.steps.begin(), schedule_.steps.end(), sends));
    send_room_.assign(schedule_.steps.size(), {});
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const Step& s = schedule_.steps[i];
      if (!sends(s)) continue;
      const std::uint64_t room = room_towards(s.peer, links_, count);
      const std::uint64_t all = bytes(s.lhs);
      send_room_[i] = {total, all > room ? room : 0};
      total += (std::min(all, room) + kCacheLine - 1) / kCacheLine * kCacheLine;
    }
    return total;
  }

  // Sets the room of each frame; returns the most bytes that a lossless frame's elements take.
  std::uint64_t measure_frames(std::vector<std::uint64_t>& rooms) const {
    if (!coding_.codec) return 0;
    std::uint64_t most = 0;
    const std::uint64_t each = arithmetic_.scales() ? sizeof(float) : element_;
    rooms.assign(schedule_.scratch.size(), 0);
    for (std::uint32_t chunk = 0; chunk < rooms.size(); ++chunk) {
      if (schedule_.scratch[chunk].form != Form::kFrame) continue;
      rooms[chunk] = bytes({Space::kScratch, chunk});
      most = std::max(most, layout_.scratch[chunk] * each);
    }
    return is_lossless() || arithmetic_.scales() ? most : 0;
  }

  std::uint64_t window(const Slot& slot) const {
    return slot.space == Space::kScratch ? window_[slot.chunk] : 0;
  }

  void emit(Program& program) {
    std::vector<Instruction>& out = program.instructions;
    out.reserve(schedule_.steps.size());
    for (int i = 0; i < steps(); ++i) {
      if (fused_into_[static_cast<std::size_t>(i)] >= 0) continue;
      if (sends_scaled(i)) out.push_back(scaled_copy(i, static_cast<int>(out.size()) + 1));
      index_[static_cast<std::size_t>(i)] = static_cast<int>(out.size());
      out.push_back(instruction(i));
      if (out.back().kind == InstructionKind::kSend) count_frame(step(i).lhs, program.encoded);
      if (out.back().kind != InstructionKind::kCode) continue;
      out.back().code = static_cast<int>(program.codes.size());
      program.codes.push_back(codes_.code_step(step(i)));
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

  bool sends_scaled(int i) const {
    return step(i).kind == StepKind::kSend && is_scaled(step(i).lhs);
  }

  // Fills the window that instruction `send` empties.
  Instruction scaled_copy(int i, int send) const {
    const auto [place, window] = send_room_[static_cast<std::size_t>(i)];
    Instruction result;
    result.kind = InstructionKind::kCopy;
    result.src = address(step(i).lhs);
    result.dst = scratch_ + place;
    result.bytes = bytes(step(i).lhs);
    result.window = window;
    result.drain = window > 0 ? send : -1;
    set_scale(result.combine);
    return result;
  }

  void set_scale(Combine& combine) const {
    combine.element_bytes = static_cast<std::uint32_t>(element_);
    combine.dtype = arithmetic_.dtype;
    combine.scale = arithmetic_.scale();
  }

  void count_frame(const Slot& sent, EncodedBytes& encoded) const {
    if (form_of(schedule_, sent) != Form::kFrame) return;
    encoded.plain_bytes += count(sent) * element_;
    encoded.frame_bytes += bytes(sent);
  }

  Instruction instruction(int i) const {
    const Step& s = step(i);
    if (codes_.is_code(s)) return codes_.instruction(s);
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
        if (sends_scaled(i)) {
          const auto [place, window] = send_room_[static_cast<std::size_t>(i)];
          result.src = scratch_ + place;
          result.window = window;
        }
        return result;
      case StepKind::kReduce: set_reduce(i, result); return result;
      case StepKind::kCopy:
        result.kind = InstructionKind::kCopy;
        result.src = address(s.lhs);
        if (is_scaled(s.lhs)) set_scale(result.combine);
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
    if (s.final && divides_by_number()) {
      result.combine.divide = divide_kernel(arithmetic_.dtype);
      result.combine.divisor = arithmetic_.contributors;
    } else if (s.final && divides_by_weights()) {
      result.combine.share = share_kernel(arithmetic_.dtype);
      result.combine.total = arithmetic_.weighing->total;
    }
    result.scales_left = is_scaled(s.lhs);
    result.scales_right = is_scaled(s.rhs);
    if (result.scales_left || result.scales_right) set_scale(result.combine);
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
    if (sends_scaled(i)) {
      // The copy waits for what the send would, and the send follows the copy.
      Instruction& copy = program.instructions[static_cast<std::size_t>(self - 1)];
      copy.first_dep = static_cast<std::uint32_t>(program.deps.size());
      add_deps(step(i), self - 1, program);
      copy.deps = static_cast<std::uint32_t>(program.deps.size()) - copy.first_dep;
      own.first_dep = static_cast<std::uint32_t>(program.deps.size());
      program.deps.push_back({static_cast<std::uint32_t>(self - 1), true});
      own.deps = 1;
      return;
    }
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

  const CodeLowering codes_;
  const std::vector<int>& fused_into_;
  const std::vector<Link*>* links_;
  std::vector<std::uint64_t>& window_;
  std::vector<std::uint64_t>& place_;
  std::vector<int>& index_;
  std::vector<int>& fed_by_;
  // By step, for sends of scaled input: where in scratch, and the window's bytes; 0: whole.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> send_room_;
};

}  // namespace

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
