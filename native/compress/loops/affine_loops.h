// int8 and int4: integers on a grid of equal steps, one grid per block. Symmetric grids are centred
// at zero, min-max ones at the middle of the block's range; both reach equally far to either side,
// which wastes one code but lets one loop serve both.
//
// A step has 16 significant bits. Its product with an integer of 8 bits is then exact, so that a
// processor that fuses the multiplication with the addition gives the same bits as one that does
// not. Steps are rounded up, so that only the very largest floats are cut off.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/small_floats.h"
#include "compress/loops/block_values.h"
#include "compress/loops/kernels.h"
#include "compress/loops/lanes.h"

namespace holdfast::compress {
namespace {

// A block's scale in the frame: the step, and the middle of min-max grids after it.
struct Steps {
  float middle;
  float step;
  float inverse;
  bool finite;
};

// A block with a smaller reach counts as zero (or constant): the step's inverse must be finite.
inline constexpr float kLeastReach = 0x1p-100F;

inline float round_up_to_16_bits(float x) { return as_float((as_bits(x) + 0xffU) & ~0xffU); }

inline Steps steps_of(float low, float high, float levels) {
  const float middle = low == -high ? 0.0F : low * 0.5F + high * 0.5F;
  const float reach = std::max(std::max(high - middle, middle - low), kLeastReach);
  float step = round_up_to_16_bits(reach / levels);
  // At the end of the range of f32 the step shrinks by some parts in 2^15, which costs less than
  // half a step.
  while (!(std::fabs(middle) + levels * step <= 0x1.fffffep127F)) {
    step = as_float(as_bits(step) - 0x100U);
  }
  return {middle, step, 1.0F / step, true};
}

// Floats as integers of the same order, and back.
inline Words ordered(Words bits) { return bits ^ (shift_signed(bits, 31) & words(kMagnitudeBits)); }
inline float from_ordered(std::int32_t key) {
  const auto bits = static_cast<std::uint32_t>(key);
  return as_float(key < 0 ? bits ^ kMagnitudeBits : bits);
}

template <class Block>
Steps symmetric_steps(const BlockValues& held, Block block, float levels) {
  const std::uint32_t most = greatest_magnitude(held, block);
  if (most >= kInfinityBits) return {0.0F, as_float(kNanBits), 0.0F, false};
  return steps_of(-as_float(most), as_float(most), levels);
}

template <class Block>
Steps min_max_steps(const BlockValues& held, Block block, float levels) {
  Words low = ordered(bits_of(held[0]));
  Words high = low;
  for (std::uint32_t i = 1; i < block / kLanes; ++i) {
    const Words key = ordered(bits_of(held[i]));
    low = less(low, key);
    high = greater(high, key);
  }
  const float least_value = from_ordered(least(low));
  const float greatest_value = from_ordered(greatest(high));
  if (!std::isfinite(least_value) || !std::isfinite(greatest_value)) {
    return {0.0F, as_float(kNanBits), 0.0F, false};
  }
  return steps_of(least_value, greatest_value, levels);
}

template <int kBits>
void store_codes(std::byte* payload, std::uint64_t i, Words codes) {
  if constexpr (kBits == 8) {
    store_bytes(payload + i, codes);
  } else {
    store_nibbles(payload + i / 2, codes);
  }
}

template <int kBits>
Words load_codes(const std::byte* payload, std::uint64_t i) {
  constexpr std::uint32_t kSign = 1U << (kBits - 1);
  Words codes;
  if constexpr (kBits == 8) {
    codes = load_bytes(payload + i);
  } else {
    codes = load_nibbles(payload + i / 2);
  }
  return (codes ^ words(kSign)) - words(kSign);
}

template <int kBits>
inline constexpr std::uint32_t kAffineLevels = (1U << (kBits - 1)) - 1;

template <int kBits, Grid kGrid, Rounding kRounding, bool kResidual, class Block>
void encode_steps(EncodeRun run, std::uint64_t at, const BlockValues& held, Block block,
                  Steps steps) {
  const Floats middle = floats(steps.middle);
  const Floats step = floats(steps.step);
  const Floats inverse = floats(steps.inverse);
  [[maybe_unused]] const Words most = words(kAffineLevels<kBits>);
  [[maybe_unused]] const Words fewest = words(0U - kAffineLevels<kBits>);
  for (std::uint32_t j = 0; j < block / kLanes; ++j) {
    const std::uint64_t i = at + kLanes * j;
    const Floats value = held[j];
    Floats scaled = value;
    if constexpr (kGrid == Grid::kMinMax) scaled = scaled - middle;
    scaled = scaled * inverse;
    Words code;
    if constexpr (kRounding == Rounding::kStochastic) {
      const Words lane = lane_numbers(run.first + static_cast<std::uint32_t>(i));
      // 16 random bits, centred: f32 has room for all of them beside a code.
      const Words chance = draw(lane, run.key_low, run.key_high) >> 16;
      code = round_down(scaled + (from_signed(chance) * floats(0x1p-16F) + floats(0x1p-17F)));
      code = less(greater(code, fewest), most);
    } else {
      code = round_nearest(scaled);  // steps_of() makes all codes fit
    }
    store_codes<kBits>(run.payload, i, code);
    if constexpr (kResidual) {
      Floats sent = from_signed(code) * step;
      if constexpr (kGrid == Grid::kMinMax) sent = middle + sent;
      store(run.residual + i, value - sent);
    }
  }
}

template <int kBits, Grid kGrid, Rounding kRounding, bool kResidual, class Block>
void encode_affine_as(EncodeRun run, Block block) {
  constexpr auto kLevels = static_cast<float>(kAffineLevels<kBits>);
  constexpr std::size_t kScaleBytes = kGrid == Grid::kMinMax ? 8 : 4;
  for (std::uint64_t b = 0; b < run.blocks; ++b) {
    const std::uint64_t at = b * block;
    const BlockValues held = hold<kResidual>(run, at, block);
    Steps steps;
    if constexpr (kGrid == Grid::kMinMax) {
      steps = min_max_steps(held, block, kLevels);
    } else {
      steps = symmetric_steps(held, block, kLevels);
    }
    std::memcpy(run.scales + kScaleBytes * b, &steps.step, 4);
    if constexpr (kGrid == Grid::kMinMax) {
      std::memcpy(run.scales + kScaleBytes * b + 4, &steps.middle, 4);
    }
    if (steps.finite) {
      encode_steps<kBits, kGrid, kRounding, kResidual>(run, at, held, block, steps);
    } else {
      encode_nothing<kResidual>(run, at, kBits);
    }
  }
}

template <int kBits, Grid kGrid, Rounding kRounding>
void encode_affine(const EncodeRun& run) {
  for_block(run, [&](auto residual, auto block) {
    encode_affine_as<kBits, kGrid, kRounding, residual.value>(run, block);
  });
}

template <int kBits, Grid kGrid, bool kAdd>
void decode_affine(DecodeRun run) {
  constexpr std::size_t kScaleBytes = kGrid == Grid::kMinMax ? 8 : 4;
  for (std::uint64_t b = 0; b < run.blocks; ++b) {
    float step = 0;
    float middle = 0;
    std::memcpy(&step, run.scales + kScaleBytes * b, 4);
    if constexpr (kGrid == Grid::kMinMax) std::memcpy(&middle, run.scales + kScaleBytes * b + 4, 4);
    for (std::uint64_t i = b * run.block; i < (b + 1) * run.block; i += kLanes) {
      Floats value = from_signed(load_codes<kBits>(run.payload, i)) * floats(step);
      if constexpr (kGrid == Grid::kMinMax) value = floats(middle) + value;
      if constexpr (kAdd) value = load(run.out + i) + value;
      store(run.out + i, value);
    }
  }
}

template <int kBits, Grid kGrid>
BlockKernels affine_kernels(Rounding rounding) {
  return {rounding == Rounding::kStochastic ? encode_affine<kBits, kGrid, Rounding::kStochastic>
                                            : encode_affine<kBits, kGrid, Rounding::kNearest>,
          decode_affine<kBits, kGrid, false>, decode_affine<kBits, kGrid, true>};
}

}  // namespace
}  // namespace holdfast::compress
