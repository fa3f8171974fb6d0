// Program: a schedule bound to memory and lowered to what a link can do. There is one fusion so
// far: a receive whose bytes feed only one reduction becomes a receive that reduces on arrival, so
// no partial sum is staged. A partial sum that is only forwarded streams through a window
// instead of a buffer of its full size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "comm/engine/buffer_pool.h"
#include "comm/engine/coding.h"
#include "comm/observer.h"
#include "comm/schedule/fusion.h"
#include "comm/schedule/layout.h"
#include "comm/schedule/schedule.h"
#include "comm/transport/link.h"

namespace holdfast::comm {

enum class InstructionKind : std::uint8_t { kSend, kRecv, kCopy, kReduce, kCode };

struct Instruction {
  InstructionKind kind{};
  Rank peer{};
  std::uint32_t ordinal = 0;
  std::byte* dst = nullptr;          // all but send
  const std::byte* src = nullptr;    // send, copy, code; reduce: left operand
  const std::byte* right = nullptr;  // reduce
  Combine combine;                   // recv: on arrival; reduce: kernel and divide
  std::uint64_t bytes = 0;
  std::uint64_t window = 0;  // bytes; send: of src; recv, scaled copy: of dst
  int drain = -1;            // recv, scaled copy with a window: the send that empties it
  int code = -1;             // code: index in Program::codes; `peer` sent the frame, or is this
                             // rank
  int frame = -1;            // send, recv, code: index of the frame that it takes or makes
  bool writes_output = false;
  // Reduce: whether the operand is this rank's input, which combine.scale scales. A copy with a
  // scale is scaled.
  bool scales_left = false;
  bool scales_right = false;
  std::uint32_t first_dep = 0;  // among the program's dependencies
  std::uint32_t deps = 0;       // how many

  // State of a run.
  int post = -1;  // index among the run's posts
  std::uint64_t done = 0;
  bool complete = false;
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Dependency> deps;  // on instructions
  std::vector<CodeStep> codes;
  std::optional<compress::Codec> codec;
  EncodedBytes encoded;  // of all its sends together
  // Indexed by scratch chunk: the most bytes that its frame may have, and the frame's size once it
  // is there.
  std::vector<std::uint64_t> frame_bytes;
  std::span<std::byte> unpacked;  // as CodeMemory has it, for any chunk
  compress::RoundingKey key;
  BufferPool::Buffer scratch;
  // State of a run.
  std::vector<SendPost> sends;
  std::vector<RecvPost> recvs;

  void clear();  // keeps the memory
};

// A schedule with the facts about it that every lowering needs.
struct FusedSchedule {
  explicit FusedSchedule(Schedule s)
      : schedule(std::move(s)),
        uses(scratch_uses(schedule)),
        into(find_fusions(schedule)),
        apart(schedule.steps.size(), -1) {}
  Schedule schedule;
  std::vector<ScratchUse> uses;
  std::vector<int> into;  // by step: the reduction a receive became part of
  // The same where no receive becomes part of one: for a user operator, whose elements may lie
  // across frames.
  std::vector<int> apart;
};

// Memory of past lowerings and of programs that have ended, reused by the next ones.
struct LoweringSpace {
  static constexpr std::size_t kMostSpares = 16;

  // By rank; null: no path is long. They outlive this.
  const std::vector<Link*>* links = nullptr;
  std::vector<std::uint64_t> window;  // by scratch chunk; 0: whole
  std::vector<std::uint64_t> place;   // by scratch chunk: offset in scratch memory
  std::vector<int> index;             // by step: its instruction
  std::vector<int> fed_by;            // by step: the receive that became part of it, or -1
  Layout layout;
  std::vector<Program> spares;

  Program take();
  void give(Program program);
};

struct Arithmetic {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t contributors = 1;  // averages divide by it
  const UserOp* user = nullptr;    // in place of dtype and op; outlives the program
  // Weighted averages: in place of `contributors`, and how this rank's input is scaled.
  std::optional<RankWeighing> weighing = {};

  // Whether this rank's input is scaled wherever it is used.
  bool scales() const { return weighing && weighing->scale != 1; }
  double scale() const { return weighing ? weighing->scale : 1; }
  // How often this rank's input would have to have something for the average to have it once.
  float times_in_input() const;
  std::uint64_t element_bytes() const {
    return user == nullptr ? dtype_bytes(dtype) : user->element_bytes;
  }
};

Program lower(const FusedSchedule& schedule, const Layout& layout, const Arithmetic& arithmetic,
              BufferPool& pool, const Coding& coding, LoweringSpace& space);
Program lower(const Schedule& schedule, const Layout& layout, const Arithmetic& arithmetic,
              BufferPool& pool, const Coding& coding = {});

}  // namespace holdfast::comm
