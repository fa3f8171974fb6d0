// Coding: how the engine makes, decodes and adds frames. A step that takes or makes a frame works
// on a whole chunk.
// Why: docs/decisions/0052-compressed-collectives-are-schedules.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/reduce/kernels.h"
#include "comm/reduce/weighing.h"
#include "comm/schedule/schedule.h"
#include "compress/codec.h"

namespace holdfast::comm {

// How an op's frames are made. An op without a codec has no frames.
struct Coding {
  std::optional<compress::Codec> codec = {};
  // The key of stochastic rounding; the engine fills in the chunk's number.
  compress::RoundingKey key = {};
  // Error feedback, indexed by input block; both are empty without it. `residual` is added to the
  // input; it is the caller's and is not changed. `feedback` receives what the frames lost.
  std::vector<const float*> residual = {};
  std::vector<float*> feedback = {};
};

enum class CodeKind : std::uint8_t { kEncode, kDecode, kDecodeAdd, kNarrow };

// One step that encodes, decodes or narrows a chunk, bound to memory.
struct CodeStep {
  CodeKind kind{};
  DType dtype = DType::kF32;    // of the side that is no frame; narrow: of the destination
  DType encoded = DType::kF32;  // of the elements in a lossless frame
  bool plain = false;           // decode: the source is not a lossless frame, but its elements
  std::uint64_t count = 0;      // elements
  std::uint64_t chunk = 0;      // encode: part of the key
  const float* residual = nullptr;
  float* feedback = nullptr;
  // Encode of a sum with error feedback: `sum` is the sum's memory, which nothing uses after the
  // encode. What the frame lost is added to `sum_residual`, the owner's residual, `times` times.
  float* sum = nullptr;
  float* sum_residual = nullptr;
  float times = 1;
  DivideKernel divide = nullptr;  // decode_add: applied to the sum
  std::uint32_t divisor = 1;
  // Weighted averages. Encode of an input: its scale, with its residual, and `unpacked` has room
  // for the chunk in f32. Decode_add: in place of `divide`.
  double scale = 1;
  ShareKernel share = nullptr;
  double total = 1;
};

struct CodeMemory {
  std::byte* dst = nullptr;
  const std::byte* src = nullptr;
  std::uint64_t& frame_bytes;  // of the frame; encode: its room before, its size after
  // Room for a chunk: lossless: in the frame's dtype; where inputs are scaled: in f32.
  std::span<std::byte> unpacked;
};

// Returns kProtocolError for a malformed frame. A lossless frame is checked as a whole before any
// of it is written, so a malformed one leaves `dst` as it was.
Status run_code(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec,
                compress::RoundingKey key);

}  // namespace holdfast::comm
