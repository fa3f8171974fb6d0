// Coding: what the engine does with frames. A step that takes or makes one works on a whole chunk.
// Why: docs/decisions/0052-compressed-collectives-are-schedules.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/reduce/kernels.h"
#include "comm/schedule/schedule.h"
#include "compress/codec.h"

namespace holdfast::comm {

// How an op's frames are made. Without a codec there are none.
struct Coding {
  std::optional<compress::Codec> codec = {};
  // Of stochastic rounding; the chunk's number is put in by the engine.
  compress::RoundingKey key = {};
  // Error feedback, by input block; empty: none. What is added to the input, and where what the
  // frames do not say goes: the first is the caller's, and stays as it is.
  std::vector<const float*> residual = {};
  std::vector<float*> feedback = {};
};

enum class CodeKind : std::uint8_t { kEncode, kDecode, kDecodeAdd, kNarrow };

// One such step, bound to memory.
struct CodeStep {
  CodeKind kind{};
  DType dtype = DType::kF32;    // of what is not a frame; narrow: of the destination
  DType encoded = DType::kF32;  // of what a lossless frame says
  bool plain = false;           // decode: the source is no frame, but what a lossless one says
  std::uint64_t count = 0;      // elements
  std::uint64_t chunk = 0;      // encode: part of the key
  const float* residual = nullptr;
  float* feedback = nullptr;
  // Encode of a sum with error feedback: its memory, for which the frame is the last use, and the
  // owner's residual, to which what the frame does not say is added, `divisor` times.
  float* sum = nullptr;
  float* sum_residual = nullptr;
  DivideKernel divide = nullptr;  // decode_add: afterwards
  std::uint32_t divisor = 1;
};

struct CodeMemory {
  std::byte* dst = nullptr;
  const std::byte* src = nullptr;
  std::uint64_t& frame_bytes;     // of the frame; encode: of its room, and then of what was made
  std::span<std::byte> unpacked;  // lossless: room for the elements in the frame's dtype
};

// A frame that cannot be one is told as kProtocolError; a lossless one is then not in `dst`, for
// it is looked at as a whole before any of it is put there.
Status run_code(const CodeStep& step, const CodeMemory& memory, const compress::Codec& codec,
                compress::RoundingKey key);

}  // namespace holdfast::comm
