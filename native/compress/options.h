// The options of a codec: one value, checked once, when the codec is made.
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
inline constexpr int kCodecCount = static_cast<int>(CodecId::kBfloat) + 1;  // the last one

enum class Rounding : std::uint8_t { kNearest, kStochastic };  // stochastic: bf16, int8, int4
enum class Grid : std::uint8_t { kSymmetric, kMinMax };        // int8, int4
enum class SignScale : std::uint8_t { kRms, kL1 };             // onebit
enum class Tier : std::uint8_t { kFast, kDense };              // bfloat

inline constexpr std::uint32_t kLeastBlock = 32;
inline constexpr std::uint32_t kGreatestBlock = 512;
// The levels of zstd that make sense on a wire; beyond 19 its window is larger than any chunk.
inline constexpr int kLeastZstdLevel = -7;
inline constexpr int kGreatestZstdLevel = 19;

// A codec ignores options of other codecs; it refuses values that it cannot use.
struct CodecOptions {
  std::uint32_t block = 128;  // elements per scale; a multiple of 32
  Rounding rounding = Rounding::kNearest;
  Grid grid = Grid::kSymmetric;
  SignScale sign_scale = SignScale::kRms;
  double ratio = 0.01;  // topk: fraction of the elements that is sent
  int zstd_level = 1;
  Tier tier = Tier::kFast;

  bool operator==(const CodecOptions&) const = default;
};

// The options that change a codec's frames; they stand in its text.
struct CodecUses {
  bool block = false;
  bool grid = false;
  bool rounding = false;
  bool sign_scale = false;
  bool ratio = false;
  bool level = false;
  bool tier = false;
};

// The defaults of a codec. onebit has longer blocks, because its scales would else be a fifth of
// its frames.
CodecOptions default_options(CodecId id);

Status check_options(const CodecUses& uses, const CodecOptions& options);

}  // namespace holdfast::compress
