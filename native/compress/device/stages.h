// Stages: a codec's work on a device as kernels that run one after the other on a stream. Block
// codecs have one stage; topk and bfloat have several, which exchange data in scratch memory of the
// device.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "compress/device/codec.h"

namespace holdfast::compress {

struct Stage {
  const device::KernelRow* row = nullptr;
  std::uint64_t threads = 0;  // threads that it keeps busy, for device::persistent()
  std::vector<std::byte> argument;
};

// What the stages report to the host; valid once the last one has ended.
struct StageReport {
  std::uint64_t frame_bytes;  // encoding: written only where frame sizes differ
  std::uint32_t wrong;        // decoding: 1 for a frame that cannot be one of so many elements
  std::uint32_t torn;         // used by the stages themselves
};

// Memory of the device, aligned to 16 bytes.
struct StageMemory {
  std::byte* scratch = nullptr;   // stage_bytes()
  StageReport* report = nullptr;  // device memory, or pinned host memory
};

// Code::kUnsupported for a codec or options without kernels; the message says which have some.
Status has_stages(const Codec& codec);

// Bytes of scratch memory that either direction needs for `count` elements.
std::size_t stage_bytes(const Codec& codec, std::uint64_t count);

struct StagedEncode {
  const void* input = nullptr;
  DType dtype = DType::kF32;
  std::uint64_t count = 0;
  RoundingKey key{};
  float* residual = nullptr;   // nullptr, or one per element
  std::byte* frame = nullptr;  // encoded_bound() bytes
};
// The codec must have stages.
std::vector<Stage> encode_stages(const Codec& codec, const StagedEncode& what,
                                 const StageMemory& memory);

struct StagedDecode {
  const std::byte* frame = nullptr;
  std::uint64_t frame_bytes = 0;
  DType dtype = DType::kF32;
  std::uint64_t count = 0;
  void* out = nullptr;
  bool add = false;  // out += decoded, f32 only
};
// The codec must have stages. Code::kProtocolError for a frame of an impossible size; the report
// tells of other damage.
Result<std::vector<Stage>> decode_stages(const Codec& codec, const StagedDecode& what,
                                         const StageMemory& memory);

}  // namespace holdfast::compress
