// What can be chosen about a codec. One value, checked once, when the codec is made.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace holdfast::compress {

enum class CodecId : std::uint8_t {
  kBf16,
  kFp16,
  kFp8E4M3,
  kFp8E5M2,
  kInt8,
  kInt4,
  kOnebit,
  kTopk,
  kZstd,
  kBfloat,
};
inline constexpr int kCodecCount = 10;

enum class Rounding : std::uint8_t { kNearest, kStochastic };  // stochastic: bf16, int8, int4
enum class Grid : std::uint8_t { kSymmetric, kMinMax };        // int8, int4
enum class SignScale : std::uint8_t { kRms, kL1 };             // onebit
enum class Tier : std::uint8_t { kFast, kDense };              // bfloat

inline constexpr std::uint32_t kLeastBlock = 32;
inline constexpr std::uint32_t kGreatestBlock = 512;
// The levels of zstd that make sense on a wire; beyond 19 its window is larger than any chunk.
inline constexpr int kLeastZstdLevel = -7;
inline constexpr int kGreatestZstdLevel = 19;

// A codec ignores what is not about it; what it cannot do is refused.
struct CodecOptions {
  std::uint32_t block = 128;  // elements to one scale; a multiple of 32
  Rounding rounding = Rounding::kNearest;
  Grid grid = Grid::kSymmetric;
  SignScale sign_scale = SignScale::kRms;
  double ratio = 0.01;  // topk: the part of the elements that is sent
  int zstd_level = 1;
  Tier tier = Tier::kFast;

  bool operator==(const CodecOptions&) const = default;
};

// What a codec is made with where nothing is said: onebit has longer blocks, for its scales would
// be a fifth of its frames.
CodecOptions default_options(CodecId id);

Status check_options(CodecId id, const CodecOptions& options);

}  // namespace holdfast::compress
