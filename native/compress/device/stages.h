// A codec's work on a device as stages: kernels that run one after the other on a stream, for every
// codec that has any. Block codecs have one stage; topk and bfloat several, and memory of the
// device for what these tell each other.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "compress/device/codec.h"

namespace holdfast::compress {

struct Stage {
  const device::KernelRow* row = nullptr;
  std::uint64_t threads = 0;  // that it keeps busy, for device::persistent()
  std::vector<std::byte> argument;
};

// What a stage tells the host, once the last one has ended.
struct StageReport {
  std::uint64_t frame_bytes;  // encoding: of the frame, where sizes differ; else not written
  std::uint32_t wrong;        // decoding: 1 for a frame that cannot be one of so many elements
  std::uint32_t torn;         // of the stages themselves
};

// Of the device, beginning at a multiple of 16.
struct StageMemory {
  std::byte* scratch = nullptr;   // stage_bytes()
  StageReport* report = nullptr;  // of the device, or pinned
};

// Code::kUnsupported for a codec, or options of one, that have no kernels, saying which have.
Status has_stages(const Codec& codec);

// Scratch memory that either direction takes for so many elements.
std::size_t stage_bytes(const Codec& codec, std::uint64_t count);

struct StagedEncode {
  const void* input = nullptr;
  DType dtype = DType::kF32;
  std::uint64_t count = 0;
  RoundingKey key{};
  float* residual = nullptr;   // or one to an element
  std::byte* frame = nullptr;  // encoded_bound() bytes
};
// The codec has stages.
std::vector<Stage> encode_stages(const Codec& codec, const StagedEncode& what,
                                 const StageMemory& memory);

struct StagedDecode {
  const std::byte* frame = nullptr;
  std::uint64_t frame_bytes = 0;
  DType dtype = DType::kF32;
  std::uint64_t count = 0;
  void* out = nullptr;
  bool add = false;  // out += decoded, of f32
};
// The codec has stages. Code::kProtocolError for a frame of a size that there cannot be; what else
// may be wrong, the report says.
Result<std::vector<Stage>> decode_stages(const Codec& codec, const StagedDecode& what,
                                         const StageMemory& memory);

}  // namespace holdfast::compress
