// Sixteen lanes as four NEON registers; see lanes.h, and lanes_plain.h for the meaning of each
// operation.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast::compress {
namespace {

inline constexpr bool kInRegisters = true;  // whether a whole block may be held

struct Floats {
  float32x4_t v[4];
};
struct Words {
  uint32x4_t v[4];
};

// Applies f to each of the four registers.
template <class Out, class F>
Out each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}

inline Floats floats(float x) {
  const float32x4_t all = vdupq_n_f32(x);
  return {{all, all, all, all}};
}
inline Words words(std::uint32_t x) {
  const uint32x4_t all = vdupq_n_u32(x);
  return {{all, all, all, all}};
}
inline Words lane_numbers(std::uint32_t first) {
  static constexpr std::uint32_t kSteps[4] = {0, 1, 2, 3};
  const uint32x4_t start = vaddq_u32(vld1q_u32(kSteps), vdupq_n_u32(first));
  return each<Words>([&](unsigned i) { return vaddq_u32(start, vdupq_n_u32(4 * i)); });
}
// Loads bytes, because an f32 may lie at any address.
inline Floats load(const void* from) {
  const auto* in = static_cast<const std::uint8_t*>(from);
  return each<Floats>([&](int i) { return vreinterpretq_f32_u8(vld1q_u8(in + 16 * i)); });
}
inline void store(void* to, Floats x) {
  auto* out = static_cast<std::uint8_t*>(to);
  for (int i = 0; i < 4; ++i) vst1q_u8(out + 16 * i, vreinterpretq_u8_f32(x.v[i]));
}
inline Words bits_of(Floats x) {
  return each<Words>([&](int i) { return vreinterpretq_u32_f32(x.v[i]); });
}
inline Floats floats_of(Words x) {
  return each<Floats>([&](int i) { return vreinterpretq_f32_u32(x.v[i]); });
}

inline Floats operator+(Floats a, Floats b) {
  return each<Floats>([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline Floats operator-(Floats a, Floats b) {
  return each<Floats>([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline Floats operator*(Floats a, Floats b) {
  return each<Floats>([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline Words operator+(Words a, Words b) {
  return each<Words>([&](int i) { return vaddq_u32(a.v[i], b.v[i]); });
}
inline Words operator-(Words a, Words b) {
  return each<Words>([&](int i) { return vsubq_u32(a.v[i], b.v[i]); });
}
inline Words operator*(Words a, Words b) {
  return each<Words>([&](int i) { return vmulq_u32(a.v[i], b.v[i]); });
}
inline Words operator&(Words a, Words b) {
  return each<Words>([&](int i) { return vandq_u32(a.v[i], b.v[i]); });
}
inline Words operator|(Words a, Words b) {
  return each<Words>([&](int i) { return vorrq_u32(a.v[i], b.v[i]); });
}
inline Words operator^(Words a, Words b) {
  return each<Words>([&](int i) { return veorq_u32(a.v[i], b.v[i]); });
}
inline Words operator<<(Words a, int by) {
  return each<Words>([&](int i) { return vshlq_u32(a.v[i], vdupq_n_s32(by)); });
}
inline Words operator>>(Words a, int by) {
  return each<Words>([&](int i) { return vshlq_u32(a.v[i], vdupq_n_s32(-by)); });
}
inline int32x4_t as_signed(uint32x4_t x) { return vreinterpretq_s32_u32(x); }
inline uint32x4_t as_words(int32x4_t x) { return vreinterpretq_u32_s32(x); }
inline Words shift_signed(Words a, int by) {
  return each<Words>(
      [&](int i) { return as_words(vshlq_s32(as_signed(a.v[i]), vdupq_n_s32(-by))); });
}

inline Words pick_less(Words a, Words b, Words x, Words y) {
  return each<Words>([&](int i) { return vbslq_u32(vcltq_u32(a.v[i], b.v[i]), x.v[i], y.v[i]); });
}
inline Words greater(Words a, Words b) {
  return each<Words>(
      [&](int i) { return as_words(vmaxq_s32(as_signed(a.v[i]), as_signed(b.v[i]))); });
}
inline Words less(Words a, Words b) {
  return each<Words>(
      [&](int i) { return as_words(vminq_s32(as_signed(a.v[i]), as_signed(b.v[i]))); });
}

inline Words round_nearest(Floats x) {
  return each<Words>([&](int i) { return as_words(vcvtnq_s32_f32(x.v[i])); });
}
inline Words round_down(Floats x) {
  return each<Words>([&](int i) { return as_words(vcvtmq_s32_f32(x.v[i])); });
}
inline Floats from_signed(Words x) {
  return each<Floats>([&](int i) { return vcvtq_f32_s32(as_signed(x.v[i])); });
}

inline std::int32_t greatest(Words x) {
  const int32x4_t lower = vmaxq_s32(as_signed(x.v[0]), as_signed(x.v[1]));
  return vmaxvq_s32(vmaxq_s32(lower, vmaxq_s32(as_signed(x.v[2]), as_signed(x.v[3]))));
}
inline std::int32_t least(Words x) {
  const int32x4_t lower = vminq_s32(as_signed(x.v[0]), as_signed(x.v[1]));
  return vminvq_s32(vminq_s32(lower, vminq_s32(as_signed(x.v[2]), as_signed(x.v[3]))));
}
inline float sum(Floats x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

// The lane numbers within a register, used as shift counts.
inline int32x4_t places() {
  static constexpr std::int32_t kPlaces[4] = {0, 1, 2, 3};
  return vld1q_s32(kPlaces);
}
inline std::uint32_t signs(Floats x) {
  uint32x4_t all = vdupq_n_u32(0);
  for (int i = 0; i < 4; ++i) {
    const uint32x4_t sign = vshrq_n_u32(vreinterpretq_u32_f32(x.v[i]), 31);
    all = vorrq_u32(all, vshlq_u32(sign, vaddq_s32(places(), vdupq_n_s32(4 * i))));
  }
  return vaddvq_u32(all);
}
// Moves bit i of the mask into the sign of lane i.
inline Floats with_signs(std::uint32_t mask, Floats x) {
  const uint32x4_t all = vdupq_n_u32(mask);
  const Words sign = each<Words>(
      [&](int i) { return vshlq_u32(all, vsubq_s32(vdupq_n_s32(31 - 4 * i), places())); });
  return floats_of(bits_of(x) ^ (sign & words(0x80000000U)));
}

// The low half words, or bytes, of all lanes side by side.
struct HalfWords {
  uint16x8_t lower;
  uint16x8_t upper;
};
inline HalfWords to_halfwords(Words x) {
  return {vmovn_high_u32(vmovn_u32(x.v[0]), x.v[1]), vmovn_high_u32(vmovn_u32(x.v[2]), x.v[3])};
}
inline Words from_halfwords(HalfWords x) {
  return {{vmovl_u16(vget_low_u16(x.lower)), vmovl_high_u16(x.lower),
           vmovl_u16(vget_low_u16(x.upper)), vmovl_high_u16(x.upper)}};
}
inline uint8x16_t to_bytes(Words x) {
  const HalfWords half = to_halfwords(x);
  return vmovn_high_u16(vmovn_u16(half.lower), half.upper);
}
inline Words from_bytes(uint8x16_t x) {
  return from_halfwords({vmovl_u8(vget_low_u8(x)), vmovl_high_u8(x)});
}
inline void store_bytes(void* to, Words x) {
  vst1q_u8(static_cast<std::uint8_t*>(to), to_bytes(x));
}
inline Words load_bytes(const void* from) {
  return from_bytes(vld1q_u8(static_cast<const std::uint8_t*>(from)));
}
inline void store_nibbles(void* to, Words x) {
  const uint16x8_t pair = vreinterpretq_u16_u8(vandq_u8(to_bytes(x), vdupq_n_u8(15)));
  vst1_u8(static_cast<std::uint8_t*>(to), vmovn_u16(vorrq_u16(pair, vshrq_n_u16(pair, 4))));
}
inline Words load_nibbles(const void* from) {
  const uint8x8_t pair = vld1_u8(static_cast<const std::uint8_t*>(from));
  const uint8x8_t low = vand_u8(pair, vdup_n_u8(15));
  const uint8x8_t high = vshr_n_u8(pair, 4);
  return from_bytes(vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high)));
}
inline void store_halfwords(void* to, Words x) {
  auto* out = static_cast<std::uint8_t*>(to);
  const HalfWords half = to_halfwords(x);
  vst1q_u8(out, vreinterpretq_u8_u16(half.lower));
  vst1q_u8(out + 16, vreinterpretq_u8_u16(half.upper));
}
inline Words load_halfwords(const void* from) {
  const auto* in = static_cast<const std::uint8_t*>(from);
  return from_halfwords(
      {vreinterpretq_u16_u8(vld1q_u8(in)), vreinterpretq_u16_u8(vld1q_u8(in + 16))});
}
inline uint32x4_t half_bits(float32x4_t x) {
  const uint32x4_t wide = vmovl_u16(vreinterpret_u16_f16(vcvt_f16_f32(x)));
  const uint32x4_t one_nan = vorrq_u32(vandq_u32(wide, vdupq_n_u32(0x8000)), vdupq_n_u32(0x7e00));
  return vbslq_u32(vceqq_f32(x, x), wide, one_nan);
}
inline Words half_bits(Floats x) {
  return each<Words>([&](int i) { return half_bits(x.v[i]); });
}
inline Floats from_half_bits(Words x) {
  return each<Floats>([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(x.v[i]))); });
}

}  // namespace
}  // namespace holdfast::compress
