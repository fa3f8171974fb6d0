// Sixteen lanes as two AVX2 registers; see lanes.h, and lanes_plain.h for the meaning of each
// operation.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast::compress {
namespace {

inline constexpr bool kInRegisters = true;  // whether a whole block may be held

struct Floats {
  __m256 a;
  __m256 b;
};
struct Words {
  __m256i a;
  __m256i b;
};

inline Floats floats(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Words words(std::uint32_t x) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(x));
  return {all, all};
}
inline Floats load(const void* from) {
  const auto* in = static_cast<const float*>(from);
  return {_mm256_loadu_ps(in), _mm256_loadu_ps(in + 8)};
}
inline void store(void* to, Floats x) {
  auto* out = static_cast<float*>(to);
  _mm256_storeu_ps(out, x.a);
  _mm256_storeu_ps(out + 8, x.b);
}
inline Words bits_of(Floats x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
inline Floats floats_of(Words x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }

inline Floats operator+(Floats x, Floats y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
inline Floats operator-(Floats x, Floats y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
inline Floats operator*(Floats x, Floats y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
inline Words operator+(Words x, Words y) {
  return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
inline Words operator-(Words x, Words y) {
  return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
inline Words operator*(Words x, Words y) {
  return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)};
}
inline Words operator&(Words x, Words y) {
  return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
inline Words operator|(Words x, Words y) {
  return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
inline Words operator^(Words x, Words y) {
  return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
inline Words operator<<(Words x, int by) {
  return {_mm256_slli_epi32(x.a, by), _mm256_slli_epi32(x.b, by)};
}
inline Words operator>>(Words x, int by) {
  return {_mm256_srli_epi32(x.a, by), _mm256_srli_epi32(x.b, by)};
}
inline Words shift_signed(Words x, int by) {
  return {_mm256_srai_epi32(x.a, by), _mm256_srai_epi32(x.b, by)};
}
inline Words lane_numbers(std::uint32_t first) {
  const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_add_epi32(steps, words(first).a), _mm256_add_epi32(steps, words(first + 8).a)};
}

inline __m256i pick_less(__m256i a, __m256i b, __m256i x, __m256i y) {
  return _mm256_blendv_epi8(y, x, _mm256_cmpgt_epi32(b, a));
}
inline Words pick_less(Words a, Words b, Words x, Words y) {
  return {pick_less(a.a, b.a, x.a, y.a), pick_less(a.b, b.b, x.b, y.b)};
}
inline Words greater(Words x, Words y) {
  return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)};
}
inline Words less(Words x, Words y) {
  return {_mm256_min_epi32(x.a, y.a), _mm256_min_epi32(x.b, y.b)};
}

inline Words round_nearest(Floats x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_cvttps_epi32(_mm256_round_ps(x.a, kNearest)),
          _mm256_cvttps_epi32(_mm256_round_ps(x.b, kNearest))};
}
inline Words round_down(Floats x) {
  return {_mm256_cvttps_epi32(_mm256_floor_ps(x.a)), _mm256_cvttps_epi32(_mm256_floor_ps(x.b))};
}
inline Floats from_signed(Words x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

inline std::int32_t greatest(Words x) {
  const __m256i eight = _mm256_max_epi32(x.a, x.b);
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
inline std::int32_t least(Words x) {
  const __m256i eight = _mm256_min_epi32(x.a, x.b);
  __m128i four = _mm_min_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  four = _mm_min_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_min_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}
inline float sum(Floats x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline std::uint32_t signs(Floats x) {
  return static_cast<std::uint32_t>(_mm256_movemask_ps(x.a)) |
         static_cast<std::uint32_t>(_mm256_movemask_ps(x.b)) << 8;
}
// Moves bit i of the mask into the sign of lane i.
inline Floats with_signs(std::uint32_t mask, Floats x) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(mask));
  const __m256i to_a = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
  const __m256i to_b = _mm256_setr_epi32(23, 22, 21, 20, 19, 18, 17, 16);
  const Words sign =
      Words{_mm256_sllv_epi32(all, to_a), _mm256_sllv_epi32(all, to_b)} & words(0x80000000U);
  return floats_of(bits_of(x) ^ sign);
}

// Packs the low half words of the lanes side by side.
inline __m256i to_halfwords(Words x) {
  const Words low = x & words(0xffff);
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(low.a, low.b), 0xd8);
}
inline void store_bytes(void* to, Words x) {
  const __m256i half = to_halfwords(x & words(0xff));
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm_packus_epi16(_mm256_castsi256_si128(half),
                                                               _mm256_extracti128_si256(half, 1)));
}
inline Words load_bytes(const void* from) {
  const __m128i all = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return {_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8))};
}
inline std::uint32_t gather_nibbles(__m256i x) {
  const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(15));
  const __m256i pair = _mm256_or_si256(low, _mm256_srli_epi64(low, 28));
  const __m256i ends =
      _mm256_shuffle_epi8(pair, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                    0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1)));
  const int lower = _mm_cvtsi128_si32(_mm256_castsi256_si128(ends));
  const int upper = _mm_cvtsi128_si32(_mm256_extracti128_si256(ends, 1));
  return static_cast<std::uint32_t>(lower) | static_cast<std::uint32_t>(upper) << 16;
}
inline void store_nibbles(void* to, Words x) {
  const std::uint32_t both[2] = {gather_nibbles(x.a), gather_nibbles(x.b)};
  std::memcpy(to, both, sizeof both);
}
inline __m256i spread_nibbles(__m128i bytes) {
  const __m256i pair = _mm256_cvtepu8_epi64(bytes);
  return _mm256_and_si256(_mm256_or_si256(pair, _mm256_slli_epi64(pair, 28)),
                          _mm256_set1_epi32(15));
}
inline Words load_nibbles(const void* from) {
  const __m128i all = _mm_loadl_epi64(static_cast<const __m128i*>(from));
  return {spread_nibbles(all), spread_nibbles(_mm_srli_si128(all, 4))};
}
inline void store_halfwords(void* to, Words x) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), to_halfwords(x));
}
inline Words load_halfwords(const void* from) {
  const __m256i all = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(all)),
          _mm256_cvtepu16_epi32(_mm256_extracti128_si256(all, 1))};
}
inline __m256i half_bits(__m256 x) {
  const __m256i wide =
      _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i one_nan =
      _mm256_or_si256(_mm256_and_si256(wide, _mm256_set1_epi32(0x8000)), _mm256_set1_epi32(0x7e00));
  return _mm256_blendv_epi8(wide, one_nan, nan);
}
inline Words half_bits(Floats x) { return {half_bits(x.a), half_bits(x.b)}; }
inline Floats from_half_bits(Words x) {
  const __m256i half = to_halfwords(x);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}

}  // namespace
}  // namespace holdfast::compress
