// Arguments of bfloat's kernels (bfloat.cu), and the constants of a frame that they share with the
// CPU's code.
#pragma once

#include <cstdint>

#include "compress/device/stages.h"

namespace holdfast::compress {

// Elements of a block in the fast tier. Devices have no dense tier: only the CPU makes Huffman
// codes.
inline constexpr std::uint64_t kBfloatBlock = 8192;
inline constexpr std::uint32_t kBfloatKind = 0x31426648U;  // "HfB1"
inline constexpr std::uint32_t kBfloatRaw = 0;
inline constexpr std::uint32_t kBfloatCoded = 1;

struct BfloatPlan {
  std::uint64_t at;     // offset of the block's header in the frame
  std::uint32_t bytes;  // size of the body
  std::uint8_t coding;
  std::uint8_t base;
  std::uint16_t extra;
};

struct BfloatEncode {
  const std::byte* input;
  std::byte* frame;
  std::uint64_t count;
  BfloatPlan* plans;  // one per block
  StageReport* report;
};

struct BfloatDecode {
  const std::byte* frame;
  std::uint64_t frame_bytes;
  void* out;
  std::uint64_t count;
  std::uint32_t add;
  BfloatPlan* plans;
  StageReport* report;
};

}  // namespace holdfast::compress
