// Eight 16- or 8-bit floats, widened to two NEON registers of f32; see lanes.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "base/small_floats.h"

namespace holdfast::comm {
namespace {

struct Lanes {
  float32x4_t lower;
  float32x4_t upper;
};
template <class T>
inline constexpr std::uint64_t kLanes = 8;

// Loads bytes, since elements may lie at any address.
inline uint16x8_t load_words(const void* from) {
  return vreinterpretq_u16_u8(vld1q_u8(static_cast<const std::uint8_t*>(from)));
}
inline void store_words(void* to, uint16x8_t words) {
  vst1q_u8(static_cast<std::uint8_t*>(to), vreinterpretq_u8_u16(words));
}
// Puts bytes into the upper halves of words, where an e5m2 is a Half.
inline uint16x8_t load_bytes(const void* from) {
  return vshll_n_u8(vld1_u8(static_cast<const std::uint8_t*>(from)), 8);
}
inline Lanes widen_halves(uint16x8_t half) {
  const float16x8_t as_half = vreinterpretq_f16_u16(half);
  return {vcvt_f32_f16(vget_low_f16(as_half)), vcvt_high_f32_f16(as_half)};
}

template <class T>
Lanes load_lanes(const void* from);

template <>
inline Lanes load_lanes<Bfloat>(const void* from) {
  const uint16x8_t words = load_words(from);
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(words), 16)),
          vreinterpretq_f32_u32(vshll_high_n_u16(words, 16))};
}

template <>
inline Lanes load_lanes<Half>(const void* from) {
  return widen_halves(load_words(from));
}

template <>
inline Lanes load_lanes<Float8E5M2>(const void* from) {
  return widen_halves(load_bytes(from));
}

// An e4m3 is read as a Half, whose bias is 15 in place of 7: the value is 256 times too small, and
// scaling it is exact.
template <>
inline Lanes load_lanes<Float8E4M3>(const void* from) {
  const uint16x8_t bits = load_bytes(from);
  const uint16x8_t magnitude = vandq_u16(bits, vdupq_n_u16(0x7f00));
  const uint16x8_t sign = vandq_u16(bits, vdupq_n_u16(0x8000));
  const uint16x8_t nan = vceqq_u16(magnitude, vdupq_n_u16(0x7f00));
  const Lanes small = widen_halves(vorrq_u16(vshrq_n_u16(magnitude, 1), sign));
  const auto scale = [](float32x4_t x, uint16x4_t is_nan) {
    // A mask of ones widens to a mask of ones.
    const int32x4_t wide = vmovl_s16(vreinterpret_s16_u16(is_nan));
    const uint32x4_t quiet = vandq_u32(vreinterpretq_u32_s32(wide), vdupq_n_u32(0x7fc00000));
    const float32x4_t value = vmulq_f32(x, vdupq_n_f32(256.0F));
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(value), quiet));
  };
  return {scale(small.lower, vget_low_u16(nan)), scale(small.upper, vget_high_u16(nan))};
}

inline uint32x4_t numbers(float32x4_t x) { return vceqq_f32(x, x); }  // lanes that are not NaN

template <class T>
struct Storing;

template <>
struct Storing<Bfloat> {
  static uint32x4_t round(float32x4_t x) {
    const uint32x4_t all = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(all, 16), vdupq_n_u32(1));
    const uint32x4_t sum = vaddq_u32(all, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t nan =
        vorrq_u32(vandq_u32(all, vdupq_n_u32(0x80000000)), vdupq_n_u32(0x7fc00000));
    return vbslq_u32(numbers(x), sum, nan);
  }

  static void store(void* to, Lanes x) {
    store_words(to, vshrn_high_n_u32(vshrn_n_u32(round(x.lower), 16), round(x.upper), 16));
  }
};

template <>
struct Storing<Half> {
  static void store(void* to, Lanes x) {
    const float16x8_t both = vcvt_high_f16_f32(vcvt_f16_f32(x.lower), x.upper);
    const uint16x8_t half = vreinterpretq_u16_f16(both);
    const uint16x8_t nan = vorrq_u16(vandq_u16(half, vdupq_n_u16(0x8000)), vdupq_n_u16(0x7e00));
    const uint16x8_t is_number = vmovn_high_u32(vmovn_u32(numbers(x.lower)), numbers(x.upper));
    store_words(to, vbslq_u16(is_number, half, nan));
  }
};

// Does what SmallFloat::narrow() does, lane by lane.
template <int kExponent, int kMantissa, bool kFinite>
struct Storing<SmallFloat<kExponent, kMantissa, kFinite, std::uint8_t>> {
  using T = SmallFloat<kExponent, kMantissa, kFinite, std::uint8_t>;

  static uint32x4_t all(std::uint32_t value) { return vdupq_n_u32(value); }

  static uint32x4_t narrow(float32x4_t value) {
    const uint32x4_t bits = vreinterpretq_u32_f32(value);
    const uint32x4_t x = vandq_u32(bits, all(0x7fffffffU));
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(x, T::kShift), all(1));
    constexpr std::uint32_t kRound = (1U << (T::kShift - 1)) - 1 - ((127 - T::kBias) << 23);
    const uint32x4_t normal = vshrq_n_u32(vaddq_u32(vaddq_u32(x, all(kRound)), odd), T::kShift);
    const uint32x4_t is_tiny = vcltq_u32(x, all(T::kSmallestNormal));
    constexpr std::uint32_t kAligner = (127 - T::kBias + 1 + std::uint32_t{T::kShift}) << 23;
    const float32x4_t aligned = vaddq_f32(vreinterpretq_f32_u32(vandq_u32(x, is_tiny)),
                                          vreinterpretq_f32_u32(all(kAligner)));
    const uint32x4_t tiny = vsubq_u32(vreinterpretq_u32_f32(aligned), all(kAligner));
    uint32x4_t magnitude = vbslq_u32(is_tiny, tiny, normal);
    const uint32x4_t beyond = vcgeq_u32(x, all(T::kOverflow));
    magnitude = vbslq_u32(beyond, all(kFinite ? T::kMagnitude : T::kInfinity), magnitude);
    magnitude = vbslq_u32(numbers(value), magnitude, all(T::kNan));
    return vorrq_u32(magnitude, vandq_u32(vshrq_n_u32(bits, 24), all(0x80)));
  }

  static void store(void* to, Lanes x) {
    const uint16x8_t words = vmovn_high_u32(vmovn_u32(narrow(x.lower)), narrow(x.upper));
    vst1_u8(static_cast<std::uint8_t*>(to), vmovn_u16(words));
  }
};

inline Lanes add_lanes(Lanes a, Lanes b) {
  return {vaddq_f32(a.lower, b.lower), vaddq_f32(a.upper, b.upper)};
}
inline Lanes multiply_lanes(Lanes a, Lanes b) {
  return {vmulq_f32(a.lower, b.lower), vmulq_f32(a.upper, b.upper)};
}
// Picks `a` where it is better or NaN, and `b` elsewhere.
inline float32x4_t pick(float32x4_t a, float32x4_t b, uint32x4_t better) {
  return vbslq_f32(vorrq_u32(better, vmvnq_u32(numbers(a))), a, b);
}
inline Lanes least_lanes(Lanes a, Lanes b) {
  return {pick(a.lower, b.lower, vcltq_f32(a.lower, b.lower)),
          pick(a.upper, b.upper, vcltq_f32(a.upper, b.upper))};
}
inline Lanes greatest_lanes(Lanes a, Lanes b) {
  return {pick(a.lower, b.lower, vcgtq_f32(a.lower, b.lower)),
          pick(a.upper, b.upper, vcgtq_f32(a.upper, b.upper))};
}

template <class T>
inline constexpr bool kHasLanes = true;

}  // namespace
}  // namespace holdfast::comm
