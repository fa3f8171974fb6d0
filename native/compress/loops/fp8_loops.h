// fp8_e4m3 and fp8_e5m2 with a scale per block, a power of two in one byte (E8M0, as in the OCP
// Microscaling formats): the smallest power with which the block's largest element fits, so that
// nothing saturates. Scaling is exact, and elements round to nearest even once.
#pragma once

#include <cstring>

#include "base/small_floats.h"
#include "compress/loops/block_values.h"
#include "compress/loops/kernels.h"
#include "compress/loops/lanes.h"

namespace holdfast::compress {
namespace {

inline constexpr std::uint32_t kScaleOfNan = 0xff;

template <int kExponent, int kMantissa>
struct Fp8 {
  static constexpr int kShift = 23 - kMantissa;
  static constexpr std::uint32_t kBias = (1U << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kRebias = (127 - kBias) << 23;
  static constexpr std::uint32_t kSmallestNormal = (127 - kBias + 1) << 23;
  // Largest finite value: 1.75 * 2^kTop in both formats.
  static constexpr std::uint32_t kTop = kExponent == 4 ? 8 : 15;
  static constexpr std::uint32_t kLargest = (kTop + kBias) << kMantissa | (kMantissa == 3 ? 6 : 3);
  static constexpr std::uint32_t kBelowTop = ((kTop + kBias) << kMantissa) - 1;

  // `value` must not exceed the format's largest value.
  static Words narrow(Floats value, Words limit) {
    const Words x = magnitude(value);
    const Words odd = (x >> kShift) & words(1);
    const Words normal = (x + words((1U << (kShift - 1)) - 1 - kRebias) + odd) >> kShift;
    // Adding a number whose last bit weighs as much as the smallest denormal rounds in hardware.
    constexpr std::uint32_t kAligner = (127 - kBias + 1 + static_cast<std::uint32_t>(kShift)) << 23;
    const Words tiny = bits_of(floats_of(x) + floats_of(words(kAligner))) - words(kAligner);
    const Words rounded = pick_less(x, words(kSmallestNormal), tiny, normal);
    return less(rounded, limit) | (bits_of(value) >> 31 << 7);
  }

  static Floats widen(Words code) {
    const Words x = code & words(0x7f);
    const Words normal = (x << kShift) + words(kRebias);
    // Subtracting removes the implicit one of a number with the smallest normal exponent.
    const Floats rest = floats_of(normal) - floats_of(words(kRebias));
    const Words tiny = bits_of(rest + rest);
    const Words value = pick_less(x, words(1U << kMantissa), tiny, normal);
    return floats_of(value | ((code & words(0x80)) << 24));
  }
};

inline float power_of(std::uint32_t biased) {
  return as_float(biased == kScaleOfNan ? kNanBits : biased << 23);
}

// The exponent of the scale, biased by 127, for a block whose largest magnitude has these bits.
template <class F>
std::uint32_t scale_exponent(std::uint32_t most) {
  if (most >= kInfinityBits) return kScaleOfNan;
  const std::uint32_t beyond = (most & 0x7fffffU) > 0x600000U ? 1U : 0U;
  const std::uint32_t exponent = (most >> 23) + beyond;
  return exponent > F::kTop + 1 ? exponent - F::kTop : 1;
}

template <class F, bool kResidual, class Block>
void encode_fp8_as(EncodeRun run, Block block) {
  for (std::uint64_t b = 0; b < run.blocks; ++b) {
    const std::uint64_t at = b * block;
    const BlockValues held = hold<kResidual>(run, at, block);
    const std::uint32_t scale = scale_exponent<F>(greatest_magnitude(held, block));
    run.scales[b] = static_cast<std::byte>(scale);
    if (scale == kScaleOfNan) {
      encode_nothing<kResidual>(run, at, 8);
      continue;
    }
    const Floats step = floats(power_of(scale));
    const Floats inverse = floats(power_of(254 - scale));
    // At the largest scale, the largest floats would round up to 2^128.
    const bool at_the_end = scale == 255 - F::kTop;
    const Words limit = words(at_the_end ? F::kBelowTop : F::kLargest);
    for (std::uint32_t j = 0; j < block / kLanes; ++j) {
      const Words code = F::narrow(held[j] * inverse, limit);
      store_bytes(run.payload + at + kLanes * j, code);
      if constexpr (kResidual) {
        store(run.residual + at + kLanes * j, held[j] - F::widen(code) * step);
      }
    }
  }
}

template <class F>
void encode_fp8(const EncodeRun& run) {
  for_block(run, [&](auto residual, auto block) { encode_fp8_as<F, residual.value>(run, block); });
}

template <class F, bool kAdd>
void decode_fp8(DecodeRun run) {
  for (std::uint64_t b = 0; b < run.blocks; ++b) {
    const Floats step = floats(power_of(static_cast<std::uint32_t>(run.scales[b])));
    for (std::uint64_t i = b * run.block; i < (b + 1) * run.block; i += kLanes) {
      Floats value = F::widen(load_bytes(run.payload + i)) * step;
      if constexpr (kAdd) value = load(run.out + i) + value;
      store(run.out + i, value);
    }
  }
}

template <class F>
BlockKernels fp8_kernels() {
  return {encode_fp8<F>, decode_fp8<F, false>, decode_fp8<F, true>};
}

}  // namespace
}  // namespace holdfast::compress
