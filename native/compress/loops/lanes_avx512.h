// Sixteen lanes as one AVX-512 register; see lanes.h, and lanes_plain.h for the meaning of each
// operation.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace holdfast::compress {
namespace {

inline constexpr bool kInRegisters = true;  // whether a whole block may be held

struct Floats {
  __m512 v;
};
struct Words {
  __m512i v;
};

inline Floats floats(float x) { return {_mm512_set1_ps(x)}; }
inline Words words(std::uint32_t x) { return {_mm512_set1_epi32(static_cast<int>(x))}; }
inline Floats load(const void* from) { return {_mm512_loadu_ps(from)}; }
inline void store(void* to, Floats x) { _mm512_storeu_ps(to, x.v); }
inline Words bits_of(Floats x) { return {_mm512_castps_si512(x.v)}; }
inline Floats floats_of(Words x) { return {_mm512_castsi512_ps(x.v)}; }

inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Words operator+(Words a, Words b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline Words operator-(Words a, Words b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline Words operator*(Words a, Words b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline Words operator&(Words a, Words b) { return {_mm512_and_si512(a.v, b.v)}; }
inline Words operator|(Words a, Words b) { return {_mm512_or_si512(a.v, b.v)}; }
inline Words operator^(Words a, Words b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline Words operator<<(Words a, int by) {
  return {_mm512_slli_epi32(a.v, static_cast<unsigned>(by))};
}
inline Words operator>>(Words a, int by) {
  return {_mm512_srli_epi32(a.v, static_cast<unsigned>(by))};
}
inline Words shift_signed(Words a, int by) {
  return {_mm512_srai_epi32(a.v, static_cast<unsigned>(by))};
}
inline Words lane_numbers(std::uint32_t first) {
  const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm512_add_epi32(steps, words(first).v)};
}

inline Words pick_less(Words a, Words b, Words x, Words y) {
  return {_mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(a.v, b.v), y.v, x.v)};
}
inline Words greater(Words a, Words b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline Words less(Words a, Words b) { return {_mm512_min_epi32(a.v, b.v)}; }

inline Words round_nearest(Floats x) {
  return {_mm512_cvt_roundps_epi32(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline Words round_down(Floats x) {
  return {_mm512_cvt_roundps_epi32(x.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
}
inline Floats from_signed(Words x) { return {_mm512_cvtepi32_ps(x.v)}; }

inline std::int32_t greatest(Words x) { return _mm512_reduce_max_epi32(x.v); }
inline std::int32_t least(Words x) { return _mm512_reduce_min_epi32(x.v); }
inline float sum(Floats x) {
  const __m256 upper = _mm512_extractf32x8_ps(x.v, 1);
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), upper);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline std::uint32_t signs(Floats x) { return _mm512_movepi32_mask(bits_of(x).v); }
inline Floats with_signs(std::uint32_t mask, Floats x) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  const __m512i bits = bits_of(x).v;
  return floats_of({_mm512_mask_xor_epi32(bits, static_cast<__mmask16>(mask), bits, sign)});
}

inline void store_bytes(void* to, Words x) {
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_cvtepi32_epi8(x.v));
}
inline Words load_bytes(const void* from) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)))};
}
// A 64-bit word has two lanes: the odd lane's four bits move to just above the even lane's.
inline void store_nibbles(void* to, Words x) {
  const __m512i low = _mm512_and_si512(x.v, _mm512_set1_epi32(15));
  const __m512i pair = _mm512_or_si512(low, _mm512_srli_epi64(low, 28));
  _mm_storel_epi64(static_cast<__m128i*>(to), _mm512_cvtepi64_epi8(pair));
}
inline Words load_nibbles(const void* from) {
  const __m512i pair = _mm512_cvtepu8_epi64(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
  const __m512i both = _mm512_or_si512(pair, _mm512_slli_epi64(pair, 28));
  return {_mm512_and_si512(both, _mm512_set1_epi32(15))};
}
inline void store_halfwords(void* to, Words x) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtepi32_epi16(x.v));
}
inline Words load_halfwords(const void* from) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)))};
}
inline Words half_bits(Floats x) {
  const __m256i half = _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512i wide = _mm512_cvtepu16_epi32(half);
  const __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  const __m512i one_nan =
      _mm512_or_si512(_mm512_and_si512(wide, _mm512_set1_epi32(0x8000)), _mm512_set1_epi32(0x7e00));
  return {_mm512_mask_mov_epi32(wide, nan, one_nan)};
}
inline Floats from_half_bits(Words x) { return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(x.v))}; }

}  // namespace
}  // namespace holdfast::compress
