// onebit: each element's sign bit, and one magnitude per block (Seide et al., 2014; RMS as in 1-bit
// Adam, L1 as in signSGD with error feedback). The sign is the float's own bit, in the code and in
// the residual alike: minus zero is negative in both.
#pragma once

#include <cmath>
#include <cstring>

#include "base/small_floats.h"
#include "compress/loops/block_values.h"
#include "compress/loops/kernels.h"
#include "compress/loops/lanes.h"

namespace holdfast::compress {
namespace {

template <SignScale kScale>
Floats weight(Floats x) {
  if constexpr (kScale == SignScale::kRms) return x * x;
  return floats_of(magnitude(x));
}

template <SignScale kScale>
float mean_of(float total, std::uint32_t live) {
  const float mean = total / static_cast<float>(live);
  if constexpr (kScale == SignScale::kRms) return std::sqrt(mean);
  return mean;
}

// Blocks whose sum leaves the range of f32 are summed in units of their largest element.
template <SignScale kScale, class Block>
float careful_scale(const BlockValues& held, Block block, std::uint32_t live) {
  const std::uint32_t most = greatest_magnitude(held, block);
  if (most >= kInfinityBits) return as_float(kNanBits);
  if (most == 0) return 0.0F;
  const std::uint32_t exponent = most >> 23;
  const float unit = as_float((exponent < 253 ? 254 - exponent : 1U) << 23);
  Floats total = floats(0);
  for (std::uint32_t i = 0; i < block / kLanes; ++i) {
    total = total + weight<kScale>(held[i] * floats(unit));
  }
  return mean_of<kScale>(sum(total), live) / unit;
}

template <SignScale kScale, class Block>
float sign_scale(const BlockValues& held, Block block, std::uint32_t live) {
  Floats total = floats(0);
  for (std::uint32_t i = 0; i < block / kLanes; ++i) total = total + weight<kScale>(held[i]);
  const float all = sum(total);
  // A finite sum has no NaN and no infinity in it.
  if (all >= 0x1p-80F && all <= 0x1.fffffep127F) return mean_of<kScale>(all, live);
  return careful_scale<kScale>(held, block, live);
}

template <SignScale kScale, bool kResidual, class Block>
void encode_signs(EncodeRun run, Block block) {
  for (std::uint64_t b = 0; b < run.blocks; ++b) {
    const std::uint64_t at = b * block;
    const BlockValues held = hold<kResidual>(run, at, block);
    const float scale = sign_scale<kScale>(held, block, run.live);
    std::memcpy(run.scales + 4 * b, &scale, 4);
    if (std::isnan(scale)) {
      encode_nothing<kResidual>(run, at, 1);
      continue;
    }
    const Words sent = words(as_bits(scale));
    for (std::uint32_t j = 0; j < block / kLanes; ++j) {
      const auto mask = static_cast<std::uint16_t>(signs(held[j]));
      std::memcpy(run.payload + at / 8 + 2 * j, &mask, 2);
      if constexpr (kResidual) {
        const Words sign = bits_of(held[j]) & words(~kMagnitudeBits);
        store(run.residual + at + kLanes * j, held[j] - floats_of(sent | sign));
      }
    }
  }
}

template <SignScale kScale>
void encode_onebit(const EncodeRun& run) {
  for_block(run,
            [&](auto residual, auto block) { encode_signs<kScale, residual.value>(run, block); });
}

template <bool kAdd>
void decode_onebit(DecodeRun run) {
  for (std::uint64_t b = 0; b < run.blocks; ++b) {
    float scale = 0;
    std::memcpy(&scale, run.scales + 4 * b, 4);
    for (std::uint64_t i = b * run.block; i < (b + 1) * run.block; i += kLanes) {
      std::uint16_t mask = 0;
      std::memcpy(&mask, run.payload + i / 8, 2);
      Floats value = with_signs(mask, floats(scale));
      if constexpr (kAdd) value = load(run.out + i) + value;
      store(run.out + i, value);
    }
  }
}

}  // namespace
}  // namespace holdfast::compress
