// The block codecs of the device, one struct each: a block's scale, an element's code, what a code
// stands for, and how a warp stores 32 of them. The arithmetic is that of affine_loops.h,
// fp8_loops.h and onebit_loops.h, whose comments say why. A warp holds a block: lane i the elements
// i, i + 32, ..., or, of codecs whose scale is the same in any order (kAnyOrder), four neighbours.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress/device/values.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

using device::kWarp;
using device::Team;

inline constexpr std::uint32_t kMostParts = kGreatestBlock / kWarp;

// A lane's elements of a block, one of each row of 32; zero where the block is shorter.
struct LaneValues {
  float value[kMostParts];
  std::uint32_t parts;
  std::uint32_t live;  // elements of the block
  HOLDFAST_DEVICE bool has(std::uint32_t part, std::uint32_t lane) const {
    return kWarp * part + lane < live;
  }
};

// Calls visit(j) for every part j, with constant indices where the compiler knows the number of
// parts.
template <class Visit>
HOLDFAST_DEVICE void for_parts(const LaneValues& held, Visit visit) {
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < kMostParts; ++j) {
    if (j < held.parts) visit(j);
  }
}

HOLDFAST_DEVICE std::uint32_t greatest_magnitude(const Team& team, const LaneValues& held) {
  std::uint32_t most = 0;
  for_parts(held, [&](std::uint32_t j) {
    const std::uint32_t x = magnitude(held.value[j]);
    most = x > most ? x : most;
  });
  return team.greatest(most);
}

template <int kBits, Grid kGrid, Rounding kRounding>
struct Affine {
  static constexpr bool kMinMax = kGrid == Grid::kMinMax;
  static constexpr Format kFormat{kMinMax ? 8 : 4, kBits};
  static constexpr bool kByChance = kRounding == Rounding::kStochastic;
  static constexpr bool kAnyOrder = true;
  static constexpr std::int32_t kMost = (1 << (kBits - 1)) - 1;
  static constexpr float kLeastReach = 0x1p-100F;
  struct Scale {
    float step;
    float middle;
    float inverse;
    bool finite;
  };

  static HOLDFAST_DEVICE Scale nothing() { return {as_float(kNanBits), 0.0F, 0.0F, false}; }

  static HOLDFAST_DEVICE Scale steps_of(float low, float high) {
    const float middle = low == -high ? 0.0F : low * 0.5F + high * 0.5F;
    const float up = high - middle;
    const float down = middle - low;
    const float wider = up < down ? down : up;
    const float reach = wider < kLeastReach ? kLeastReach : wider;
    constexpr auto kLevels = static_cast<float>(kMost);
    float step = as_float((as_bits(reach / kLevels) + 0xffU) & ~0xffU);
    while (!(::fabsf(middle) + kLevels * step <= 0x1.fffffep127F)) {
      step = as_float(as_bits(step) - 0x100U);
    }
    return {step, middle, 1.0F / step, true};
  }

  // Floats as unsigned numbers of the same order, and back.
  static HOLDFAST_DEVICE std::uint32_t ordered(float x) {
    const std::uint32_t bits = as_bits(x);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
  }
  static HOLDFAST_DEVICE float from_ordered(std::uint32_t key) {
    return as_float(key >> 31 != 0 ? key & kMagnitudeBits : ~key);
  }

  static HOLDFAST_DEVICE Scale scale_of(const Team& team, const LaneValues& held) {
    if constexpr (kMinMax) {
      std::uint32_t low = ~0U;
      std::uint32_t high = 0;
      for_parts(held, [&](std::uint32_t j) {
        if (!held.has(j, team.lane())) return;
        const std::uint32_t key = ordered(held.value[j]);
        low = key < low ? key : low;
        high = key > high ? key : high;
      });
      const float least = from_ordered(team.least(low));
      const float greatest = from_ordered(team.greatest(high));
      const bool finite = magnitude(least) < kInfinityBits && magnitude(greatest) < kInfinityBits;
      return finite ? steps_of(least, greatest) : nothing();
    } else {
      const std::uint32_t most = greatest_magnitude(team, held);
      return most < kInfinityBits ? steps_of(-as_float(most), as_float(most)) : nothing();
    }
  }

  static HOLDFAST_DEVICE void store_scale(std::byte* at, const Scale& scale) {
    device::store_element(at, scale.step);
    if constexpr (kMinMax) device::store_element(at + 4, scale.middle);
  }
  static HOLDFAST_DEVICE Scale load_scale(const std::byte* at) {
    return {device::load_element<float>(at), kMinMax ? device::load_element<float>(at + 4) : 0.0F,
            0.0F, true};
  }

  static HOLDFAST_DEVICE std::uint32_t encode(float value, const Scale& scale, std::uint64_t number,
                                              std::uint64_t key) {
    const float scaled = (kMinMax ? value - scale.middle : value) * scale.inverse;
    if constexpr (kByChance) {
      const std::uint32_t chance = draw(static_cast<std::uint32_t>(number), key) >> 16;
      const float moved = scaled + (static_cast<float>(chance) * 0x1p-16F + 0x1p-17F);
      const auto code = static_cast<std::int32_t>(::floorf(moved));
      const std::int32_t cut = code > -kMost ? code : -kMost;
      return static_cast<std::uint32_t>(cut < kMost ? cut : kMost);
    } else {
      constexpr float kAligner = 12582912.0F;  // 1.5 * 2^23: its last bit weighs 1
      return as_bits(scaled + kAligner) - as_bits(kAligner);
    }
  }
  static HOLDFAST_DEVICE float decode(std::uint32_t code, const Scale& scale) {
    const float sent = multiply(static_cast<float>(static_cast<std::int32_t>(code)), scale.step);
    return kMinMax ? add(scale.middle, sent) : sent;
  }

  static HOLDFAST_DEVICE void store(const Team& team, std::byte* payload, std::uint32_t i,
                                    std::uint32_t code, bool live) {
    if constexpr (kBits == 8) {
      if (live) payload[i] = static_cast<std::byte>(code);
    } else {
      const std::uint32_t next = team.swap(live ? code : 0U, 1);
      if (!live || i % 2 != 0) return;
      payload[i / 2] = static_cast<std::byte>((code & 15U) | (next & 15U) << 4);
    }
  }
  // A code from its bits in the frame.
  static HOLDFAST_DEVICE std::uint32_t from_bits(std::uint32_t bits) {
    constexpr std::uint32_t kSign = 1U << (kBits - 1);
    return (bits ^ kSign) - kSign;
  }
};

template <int kExponent, int kMantissa>
struct Fp8Format {
  static constexpr Format kFormat{1, 8};
  static constexpr bool kByChance = false;
  static constexpr bool kAnyOrder = true;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr std::uint32_t kBias = (1U << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kRebias = (127 - kBias) << 23;
  static constexpr std::uint32_t kSmallestNormal = (127 - kBias + 1) << 23;
  static constexpr std::uint32_t kTop = kExponent == 4 ? 8 : 15;
  static constexpr std::uint32_t kLargest = (kTop + kBias) << kMantissa | (kMantissa == 3 ? 6 : 3);
  static constexpr std::uint32_t kBelowTop = ((kTop + kBias) << kMantissa) - 1;
  static constexpr std::uint32_t kScaleOfNan = 0xff;
  struct Scale {
    std::uint32_t exponent;  // biased by 127
    float step;
    float inverse;
    std::uint32_t limit;
    bool finite;
  };

  static HOLDFAST_DEVICE float power_of(std::uint32_t biased) {
    return as_float(biased == kScaleOfNan ? kNanBits : biased << 23);
  }

  static HOLDFAST_DEVICE Scale scale_of(const Team& team, const LaneValues& held) {
    const std::uint32_t most = greatest_magnitude(team, held);
    if (most >= kInfinityBits) return {kScaleOfNan, 0.0F, 0.0F, 0, false};
    const std::uint32_t exponent = (most >> 23) + ((most & 0x7fffffU) > 0x600000U ? 1U : 0U);
    const std::uint32_t scale = exponent > kTop + 1 ? exponent - kTop : 1;
    const std::uint32_t limit = scale == 255 - kTop ? kBelowTop : kLargest;
    return {scale, power_of(scale), power_of(254 - scale), limit, true};
  }
  static HOLDFAST_DEVICE void store_scale(std::byte* at, const Scale& scale) {
    *at = static_cast<std::byte>(scale.exponent);
  }
  static HOLDFAST_DEVICE Scale load_scale(const std::byte* at) {
    const auto exponent = static_cast<std::uint32_t>(*at);
    return {exponent, power_of(exponent), 0.0F, 0, true};
  }

  static HOLDFAST_DEVICE std::uint32_t encode(float value, const Scale& scale, std::uint64_t,
                                              std::uint64_t) {
    const float scaled = value * scale.inverse;
    const std::uint32_t x = magnitude(scaled);
    const std::uint32_t odd = x >> kShift & 1U;
    const std::uint32_t normal = (x + ((1U << (kShift - 1)) - 1 - kRebias) + odd) >> kShift;
    constexpr std::uint32_t kAligner = (127 - kBias + 1 + static_cast<std::uint32_t>(kShift)) << 23;
    const std::uint32_t tiny = as_bits(as_float(x) + as_float(kAligner)) - kAligner;
    const std::uint32_t rounded = x < kSmallestNormal ? tiny : normal;
    return (rounded < scale.limit ? rounded : scale.limit) | (as_bits(scaled) >> 31 << 7);
  }
  static HOLDFAST_DEVICE float decode(std::uint32_t code, const Scale& scale) {
    const std::uint32_t x = code & 0x7fU;
    const std::uint32_t normal = (x << kShift) + kRebias;
    const float rest = as_float(normal) - as_float(kRebias);
    const std::uint32_t value = x < 1U << kMantissa ? as_bits(rest + rest) : normal;
    return multiply(as_float(value | (code & 0x80U) << 24), scale.step);
  }

  static HOLDFAST_DEVICE void store(const Team&, std::byte* payload, std::uint32_t i,
                                    std::uint32_t code, bool live) {
    if (live) payload[i] = static_cast<std::byte>(code);
  }
  static HOLDFAST_DEVICE std::uint32_t from_bits(std::uint32_t bits) { return bits; }
};

template <SignScale kScale>
struct Onebit {
  static constexpr Format kFormat{4, 1};
  static constexpr bool kByChance = false;
  static constexpr bool kAnyOrder = false;
  struct Scale {
    float value;
    bool finite;
  };

  static HOLDFAST_DEVICE float weight(float x) {
    return kScale == SignScale::kRms ? x * x : as_float(magnitude(x));
  }
  // Sums in the order of the format: sixteen sums over every sixteenth element, then halves onto
  // halves.
  static HOLDFAST_DEVICE float total(const Team& team, const LaneValues& held, float unit) {
    float sum = 0;
    for_parts(held, [&](std::uint32_t j) {
      const float own = weight(held.value[j] * unit);
      const float other = team.swap(own, 16);
      sum = sum + own;
      sum = sum + other;  // valid in the lower 16 lanes only
    });
    HOLDFAST_UNROLL
    for (std::uint32_t half = 8; half > 0; half /= 2) {
      sum = sum + team.shuffle(sum, team.lane() + half);
    }
    return team.shuffle(sum, 0);
  }
  static HOLDFAST_DEVICE float mean_of(float sum, std::uint32_t live) {
    const float mean = sum / static_cast<float>(live);
    return kScale == SignScale::kRms ? ::sqrtf(mean) : mean;
  }

  static HOLDFAST_DEVICE Scale scale_of(const Team& team, const LaneValues& held) {
    const float all = total(team, held, 1.0F);
    if (all >= 0x1p-80F && all <= 0x1.fffffep127F) return {mean_of(all, held.live), true};
    // Sum again in units of the largest element. All lanes take this branch together.
    const std::uint32_t most = greatest_magnitude(team, held);
    if (most >= kInfinityBits) return {as_float(kNanBits), false};
    if (most == 0) return {0.0F, true};
    const std::uint32_t exponent = most >> 23;
    const float unit = as_float((exponent < 253 ? 254 - exponent : 1U) << 23);
    return {mean_of(total(team, held, unit), held.live) / unit, true};
  }
  static HOLDFAST_DEVICE void store_scale(std::byte* at, const Scale& scale) {
    device::store_element(at, scale.value);
  }
  static HOLDFAST_DEVICE Scale load_scale(const std::byte* at) {
    return {device::load_element<float>(at), true};
  }

  static HOLDFAST_DEVICE std::uint32_t encode(float value, const Scale&, std::uint64_t,
                                              std::uint64_t) {
    return as_bits(value) >> 31;
  }
  static HOLDFAST_DEVICE float decode(std::uint32_t code, const Scale& scale) {
    return as_float(as_bits(scale.value) ^ code << 31);
  }

  // 32 lanes make four bytes; the first four lanes store one each.
  static HOLDFAST_DEVICE void store(const Team& team, std::byte* payload, std::uint32_t i,
                                    std::uint32_t code, bool live) {
    const std::uint32_t lane = team.lane();
    const std::uint32_t mask = team.ballot(live && code != 0);
    const std::uint32_t lives = team.ballot(live);
    if (lane >= 4 || (lives >> (8 * lane)) == 0) return;
    payload[(i - lane) / 8 + lane] = static_cast<std::byte>(mask >> (8 * lane));
  }
  static HOLDFAST_DEVICE std::uint32_t from_bits(std::uint32_t bits) { return bits; }
};

template <class Codec>
HOLDFAST_DEVICE BlockLayout layout_of(std::uint32_t block, std::uint64_t count) {
  return {block, Codec::kFormat, count};
}

}  // namespace
}  // namespace holdfast::compress
