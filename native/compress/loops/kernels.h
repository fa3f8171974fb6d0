// The inner loops of the block codecs. They take runs of whole blocks of f32 and check no sizes.
// They are compiled once per instruction level; every level writes the same bytes. The caller pads
// the tail of a tensor to a whole block (block_codec.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "compress/options.h"

namespace holdfast::compress {

// Loops copy their run: the compiler must assume that every byte written may change a referenced
// one.
struct EncodeRun {
  const std::byte* input;  // f32, at any address
  float* residual;         // nullptr, or added to the input; becomes the new error
  std::uint64_t blocks;
  std::uint32_t block;  // elements per block
  std::uint32_t live;   // elements per block that are no padding
  std::byte* scales;
  std::byte* payload;
  std::uint32_t first;  // the run's first element, for the draws of stochastic rounding
  std::uint32_t key_low;
  std::uint32_t key_high;
};

struct DecodeRun {
  const std::byte* scales;
  const std::byte* payload;
  std::uint64_t blocks;
  std::uint32_t block;
  float* out;
};

struct BlockKernels {
  void (*encode)(const EncodeRun&);
  void (*decode)(DecodeRun);
  void (*decode_add)(DecodeRun);
};

// Runs of topk and bfloat; topk_loops.h and bfloat_loops.h describe them.
inline constexpr std::uint64_t kTooManyEscapes = ~std::uint64_t{0};

inline constexpr std::size_t kEscapeSlack = 48;

struct CollectRun {
  const std::byte* input;  // f32
  float* residual;         // nullptr, or the input is added to it
  std::uint64_t count;     // a multiple of 16
  std::uint32_t first;     // number of the first element
  std::uint32_t threshold;
  std::uint64_t* out;  // ranks (topk_loops.h), `count` of them at most
};

struct SplitRun {
  const std::byte* elements;
  std::uint64_t groups;  // of 32 elements
  std::uint32_t base;
  std::byte* rest;
  std::byte* codes;
  std::byte* escapes;
  std::int64_t most_escapes;  // room for escapes; a group starts only with 32 free
};

struct JoinRun {
  const std::byte* rest;
  const std::byte* codes;
  const std::byte* escapes;  // kEscapeSlack more bytes may be read
  std::int64_t most_escapes;
  std::uint64_t groups;
  std::uint32_t base;
  std::byte* elements;
};

struct ScanKernels {
  std::uint64_t (*collect)(const CollectRun&);
  std::uint64_t (*split)(const SplitRun&);  // number of escapes, or kTooManyEscapes
  std::uint64_t (*join)(const JoinRun&);    // the same result
  void (*part)(const std::byte* elements, std::uint64_t groups, std::byte* rest,
               std::byte* exponents);
  void (*merge)(const std::byte* rest, const std::byte* exponents, std::uint64_t groups,
                std::byte* elements);
};

BlockKernels block_kernels(CpuLevel level, CodecId id, const CodecOptions& options);
ScanKernels scan_kernels(CpuLevel level);

BlockKernels block_kernels_reference(CodecId id, const CodecOptions& options);
ScanKernels scan_kernels_reference();
BlockKernels block_kernels_baseline(CodecId id, const CodecOptions& options);
ScanKernels scan_kernels_baseline();
#if defined(__x86_64__)
BlockKernels block_kernels_avx2(CodecId id, const CodecOptions& options);
ScanKernels scan_kernels_avx2();
BlockKernels block_kernels_avx512(CodecId id, const CodecOptions& options);
ScanKernels scan_kernels_avx512();
#elif defined(__aarch64__)
BlockKernels block_kernels_neon(CodecId id, const CodecOptions& options);
ScanKernels scan_kernels_neon();
#endif

}  // namespace holdfast::compress
