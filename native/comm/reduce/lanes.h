// Lanes: vectors of 16- and 8-bit floats, widened to f32 and narrowed again in registers, which the
// compiler does not do well by itself. Results have the same bits as those of small_floats.h:
// rounding to nearest even, one NaN. The instruction levels that have such instructions include
// this file; it has internal linkage, as small_floats.h has.
// Why: docs/decisions/0039-small-floats-by-hand.md
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/small_floats.h"

// Defined if this level has lanes.
#if defined(__AVX2__) || defined(HOLDFAST_NEON)
#define HOLDFAST_LANES
#endif

#if defined(HOLDFAST_NEON)
#include "comm/reduce/lanes_neon.h"

#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include <immintrin.h>

namespace holdfast::comm {
namespace {

using Lanes = __m512;
struct Pair {
  Lanes lower;
  Lanes upper;
};
template <class T>
inline constexpr std::uint64_t kLanes = std::is_same_v<T, Bfloat> ? 32 : 16;

inline __m256i load_words(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

// Puts bytes into the upper halves of words, where an e5m2 is a Half.
inline __m256i load_bytes(const void* from) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(from));
  return _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8);
}

template <class T>
auto load_lanes(const void* from);

template <>
inline auto load_lanes<Bfloat>(const void* from) {
  const __m512i both = _mm512_loadu_si512(from);
  return Pair{
      _mm512_castsi512_ps(_mm512_slli_epi32(both, 16)),
      _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(-65536))),
  };
}

template <>
inline auto load_lanes<Half>(const void* from) {
  return _mm512_cvtph_ps(load_words(from));
}

template <>
inline auto load_lanes<Float8E5M2>(const void* from) {
  return _mm512_cvtph_ps(load_bytes(from));
}

// An e4m3 is read as a Half, whose bias is 15 in place of 7: the value is 256 times too small, and
// scaling it is exact.
template <>
inline auto load_lanes<Float8E4M3>(const void* from) {
  const __m256i bits = load_bytes(from);
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi16(0x7f00));
  const __m256i half =
      _mm256_or_si256(_mm256_srli_epi16(magnitude, 1),
                      _mm256_and_si256(bits, _mm256_set1_epi16(static_cast<short>(0x8000))));
  const __mmask16 nan = _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f00));
  const __m512 value = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0F));
  const __m512i bits32 = _mm512_castps_si512(value);
  return _mm512_castsi512_ps(
      _mm512_mask_or_epi32(bits32, nan, bits32, _mm512_set1_epi32(0x7fc00000)));
}

inline __mmask16 nans(Lanes x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); }

template <class T>
struct Storing;

// A word has two bfloats: the upper one is an f32 without its lower half, and so is the lower one
// after a shift.
template <>
struct Storing<Bfloat> {
  static __m512i round(Lanes x) {
    const __m512i all = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(all, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __mmask16 nan = nans(x);
    const __m512i sum = _mm512_mask_add_epi32(all, static_cast<__mmask16>(~nan), all, half);
    // (sum & sign) | NaN
    return _mm512_mask_ternarylogic_epi32(sum, nan, _mm512_set1_epi32(INT32_MIN),
                                          _mm512_set1_epi32(0x7fc00000), 0xea);
  }

  static void store(void* to, Pair x) {
    const __m512i lower = _mm512_srli_epi32(round(x.lower), 16);
    const __m512i upper = _mm512_and_si512(round(x.upper), _mm512_set1_epi32(-65536));
    _mm512_storeu_si512(to, _mm512_or_si512(lower, upper));
  }
};

template <>
struct Storing<Half> {
  static void store(void* to, Lanes x) {
    const __m256i half = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i nan =
        _mm256_or_si256(_mm256_and_si256(half, _mm256_set1_epi16(static_cast<short>(0x8000))),
                        _mm256_set1_epi16(0x7e00));
    _mm256_storeu_si256(static_cast<__m256i*>(to), _mm256_mask_mov_epi16(half, nans(x), nan));
  }
};

// Does what SmallFloat::narrow() does, lane by lane.
template <int kExponent, int kMantissa, bool kFinite>
struct Storing<SmallFloat<kExponent, kMantissa, kFinite, std::uint8_t>> {
  using T = SmallFloat<kExponent, kMantissa, kFinite, std::uint8_t>;

  static __m512i all(std::uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }

  static void store(void* to, Lanes value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i x = _mm512_and_si512(bits, all(0x7fffffffU));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, T::kShift), all(1));
    constexpr std::uint32_t kRound = (1U << (T::kShift - 1)) - 1 - ((127 - T::kBias) << 23);
    const __m512i normal =
        _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(x, all(kRound)), odd), T::kShift);
    const __mmask16 is_tiny = _mm512_cmplt_epu32_mask(x, all(T::kSmallestNormal));
    constexpr std::uint32_t kAligner = (127 - T::kBias + 1 + std::uint32_t{T::kShift}) << 23;
    const __m512 aligned = _mm512_add_ps(_mm512_maskz_mov_ps(is_tiny, _mm512_castsi512_ps(x)),
                                         _mm512_castsi512_ps(all(kAligner)));
    const __m512i tiny = _mm512_sub_epi32(_mm512_castps_si512(aligned), all(kAligner));
    __m512i magnitude = _mm512_mask_mov_epi32(normal, is_tiny, tiny);
    const __mmask16 beyond = _mm512_cmpge_epu32_mask(x, all(T::kOverflow));
    magnitude =
        _mm512_mask_mov_epi32(magnitude, beyond, all(kFinite ? T::kMagnitude : T::kInfinity));
    magnitude = _mm512_mask_mov_epi32(magnitude, nans(value), all(T::kNan));
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi32(bits, 24), all(0x80));
    _mm_storeu_si128(static_cast<__m128i*>(to),
                     _mm512_cvtepi32_epi8(_mm512_or_si512(magnitude, sign)));
  }
};

inline Lanes add_lanes(Lanes a, Lanes b) { return _mm512_add_ps(a, b); }
inline Lanes multiply_lanes(Lanes a, Lanes b) { return _mm512_mul_ps(a, b); }
inline Lanes least_lanes(Lanes a, Lanes b) {
  return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ) | nans(a), a);
}
inline Lanes greatest_lanes(Lanes a, Lanes b) {
  return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) | nans(a), a);
}

template <class T>
inline constexpr bool kHasLanes = true;

}  // namespace
}  // namespace holdfast::comm

#elif defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>

namespace holdfast::comm {
namespace {

using Lanes = __m256;
template <class T>
inline constexpr std::uint64_t kLanes = 8;

template <class T>
Lanes load_lanes(const void* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}

template <class T>
struct Storing {
  static void store(void* to, Lanes x) {
    const __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i wide = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m128i is_nan =
        _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    const __m128i nan = _mm_or_si128(
        _mm_and_si128(half, _mm_set1_epi16(static_cast<short>(0x8000))), _mm_set1_epi16(0x7e00));
    _mm_storeu_si128(static_cast<__m128i*>(to), _mm_blendv_epi8(half, nan, is_nan));
  }
};

inline Lanes add_lanes(Lanes a, Lanes b) { return _mm256_add_ps(a, b); }
inline Lanes multiply_lanes(Lanes a, Lanes b) { return _mm256_mul_ps(a, b); }
inline Lanes pick(Lanes a, Lanes b, Lanes better) {
  return _mm256_blendv_ps(b, a, _mm256_or_ps(better, _mm256_cmp_ps(a, a, _CMP_UNORD_Q)));
}
inline Lanes least_lanes(Lanes a, Lanes b) { return pick(a, b, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
inline Lanes greatest_lanes(Lanes a, Lanes b) {
  return pick(a, b, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

// The compiler vectorises the other types well.
template <class T>
inline constexpr bool kHasLanes = std::is_same_v<T, Half>;

}  // namespace
}  // namespace holdfast::comm

#else

namespace holdfast::comm {
namespace {

template <class T>
inline constexpr bool kHasLanes = false;

}  // namespace
}  // namespace holdfast::comm

#endif
