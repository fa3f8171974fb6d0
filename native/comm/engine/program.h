// Program: a schedule bound to memory and lowered to what a link can do. The one fusion so far: a
// receive whose bytes only feed one reduction becomes a receive that reduces on arrival, so no
// partial sum is staged. A partial sum that is only forwarded streams through a small window
// instead of a buffer of its full size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "comm/engine/buffer_pool.h"
#include "comm/engine/coding.h"
#include "comm/schedule/layout.h"
#include "comm/schedule/schedule.h"
#include "comm/transport/post.h"

namespace holdfast::comm {

// Windows of forwarded partial sums: a few frames, so that both neighbours stay busy while one of
// them is off its core.
inline constexpr std::uint64_t kWindowBytes = 2048 * 1024;

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
  std::uint64_t window = 0;  // send: of src; recv: of dst
  int drain = -1;            // recv with a window: the send that empties it
  int code = -1;             // code: index among the program's steps of that kind; `peer` sent the
                             // frame, or is this rank
  bool writes_output = false;
  std::vector<Dependency> deps;

  // State of a run.
  int post = -1;  // index among the run's posts
  std::uint64_t done = 0;
  bool complete = false;
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<CodeStep> codes;
  std::optional<compress::Codec> codec;
  compress::Key key;
  BufferPool::Buffer scratch;
};

struct Arithmetic {
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::uint32_t contributors = 1;  // averages divide by it
};

Program lower(const Schedule& schedule, const Layout& layout, const Arithmetic& arithmetic,
              BufferPool& pool, const Coding& coding = {});

}  // namespace holdfast::comm
