// Tensors that codecs are tested on: random ones, and those that have broken codecs before.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compress/codec.h"
#include "compress/zstd_bytes.h"

namespace holdfast::compress {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed * 2654435761U + 1) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  double uniform() { return (next() + 0.5) / 4294967296.0; }
  float normal() {
    constexpr double kTurn = 6.283185307179586;
    return static_cast<float>(std::sqrt(-2 * std::log(uniform())) * std::cos(kTurn * uniform()));
  }

 private:
  std::uint64_t state_;
};

struct Tensor {
  std::string name;
  std::vector<float> values;
};

inline std::vector<float> normals(std::size_t count, std::uint64_t seed, float scale = 1.0F,
                                  float offset = 0.0F) {
  Chance chance(seed);
  std::vector<float> out(count);
  for (float& x : out) x = chance.normal() * scale + offset;
  return out;
}

// Finite ones, of any order of magnitude.
inline std::vector<float> any_finite(std::size_t count, std::uint64_t seed) {
  Chance chance(seed);
  std::vector<float> out(count);
  for (float& x : out) {
    do {
      x = std::bit_cast<float>(chance.next());
    } while (!std::isfinite(x));
  }
  return out;
}

inline std::vector<float> sparse(std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; i += 37) out[i] = i % 2 == 0 ? 1.5F : -0.25F;
  return out;
}

inline std::vector<Tensor> finite_tensors(std::size_t count) {
  constexpr float kMost = std::numeric_limits<float>::max();
  std::vector<float> ends(count, kMost);
  for (std::size_t i = 0; i < count; i += 3) ends[i] = -kMost;
  std::vector<float> minus_zero(count, -0.0F);
  for (std::size_t i = 0; i < count; i += 5) minus_zero[i] = 1.0F;
  return {{"normal", normals(count, count + 1)},
          {"small", normals(count, count + 2, 1e-20F)},
          {"denormal", normals(count, count + 3, 1e-40F)},
          {"large", normals(count, count + 4, 1e30F)},
          {"all negative", normals(count, count + 5, 0.01F, -5.0F)},
          {"far from zero", normals(count, count + 6, 1.0F, 1e6F)},
          {"zero", std::vector<float>(count)},
          {"minus zero", minus_zero},
          {"constant", std::vector<float>(count, -0.7F)},
          {"sparse", sparse(count)},
          {"any", any_finite(count, count + 7)},
          {"largest", std::vector<float>(count, kMost)},
          {"both ends", ends}};
}

inline std::span<const std::byte> bytes_of(const std::vector<float>& x) {
  return std::as_bytes(std::span(x));
}

inline Codec made(std::string_view name, const CodecOptions& options = {}) {
  return Codec::make(name, options).value();
}

inline std::vector<std::byte> encoded(const Codec& codec, std::span<const std::byte> input,
                                      DType dtype, std::span<float> residual = {},
                                      const RoundingKey& key = {}) {
  std::vector<std::byte> frame(codec.encoded_bound(dtype, input.size() / dtype_bytes(dtype)));
  frame.resize(codec.encode({input, dtype, key, residual}, frame));
  return frame;
}

inline std::vector<float> decoded(const Codec& codec, const std::vector<std::byte>& frame,
                                  std::size_t count) {
  std::vector<float> out(count, 77.0F);
  const Status status = codec.decode(frame, DType::kF32, std::as_writable_bytes(std::span(out)));
  if (!status.is_ok()) out.clear();
  return out;
}

// Of the catalogue, what this build can make.
inline bool is_built(const CodecRow& row) { return row.spec.id != CodecId::kZstd || has_zstd(); }

inline std::vector<std::uint32_t> bits_of(const std::vector<float>& x) {
  std::vector<std::uint32_t> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = std::bit_cast<std::uint32_t>(x[i]);
  return out;
}

// Every choice that changes what a codec does.
inline std::vector<CodecOptions> variants(CodecId id) {
  std::vector<CodecOptions> all;
  for (const std::uint32_t block : {32U, 96U, 128U, 512U}) {
    all.push_back({.block = block});
    if (id == CodecId::kInt8 || id == CodecId::kInt4) {
      all.push_back({.block = block, .grid = Grid::kMinMax});
      all.push_back({.block = block, .rounding = Rounding::kStochastic});
      all.push_back({.block = block, .rounding = Rounding::kStochastic, .grid = Grid::kMinMax});
    }
    if (id == CodecId::kBf16) all.push_back({.rounding = Rounding::kStochastic});
    if (id == CodecId::kOnebit) all.push_back({.block = block, .sign_scale = SignScale::kL1});
  }
  if (id == CodecId::kTopk) {
    for (const double ratio : {1e-9, 0.3, 1.0}) all.push_back({.ratio = ratio});
  }
  if (id == CodecId::kZstd) all.push_back({.zstd_level = -5});
  if (id == CodecId::kBfloat && has_zstd()) all.push_back({.tier = Tier::kDense});
  return all;
}

}  // namespace holdfast::compress
