// The loops that put records together by shuffles, where an instruction level has them: 16 bytes at
// a time by bytes, 64 by words of 4 bytes, or by bytes where the processor can.
#pragma once

#if defined(__SSSE3__)
#include <immintrin.h>
#elif defined(HOLDFAST_NEON)
#include <arm_neon.h>
#endif

#include "datatype/loops/kernels.h"

namespace holdfast::datatype {
namespace {

#if defined(HOLDFAST_NEON)

struct Vector16 {
  using Value = uint8x16_t;
  using Lanes = std::uint64_t;
  static constexpr std::uint64_t kBytes = 16;

  static Value load(const void* from) { return vld1q_u8(static_cast<const std::uint8_t*>(from)); }
  // An index of 16 or more gives zero.
  static Value pick(Lanes /*lanes*/, Value index, const std::byte* from) {
    return vqtbl1q_u8(load(from), index);
  }
  static Value join(Value a, Value b) { return vorrq_u8(a, b); }
  static void store(std::byte* to, Value value) {
    vst1q_u8(reinterpret_cast<std::uint8_t*>(to), value);
  }
};

#elif defined(__SSSE3__)

struct Vector16 {
  using Value = __m128i;
  using Lanes = std::uint64_t;
  static constexpr std::uint64_t kBytes = 16;

  static Value load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  // An index of 128 or more gives zero, so that lanes are not asked for.
  static Value pick(Lanes /*lanes*/, Value index, const std::byte* from) {
    return _mm_shuffle_epi8(load(from), index);
  }
  static Value join(Value a, Value b) { return _mm_or_si128(a, b); }
  static void store(std::byte* to, Value value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value);
  }
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  static void store_some(std::byte* to, std::uint64_t keep, Value value) {
    _mm_mask_storeu_epi8(to, static_cast<__mmask16>(keep), value);
  }
#endif
};

#if defined(__AVX512BW__)
struct Vector64 {
  using Value = __m512i;
  static constexpr std::uint64_t kBytes = 64;

  static Value load(const void* from) { return _mm512_loadu_si512(from); }
  static Value join(Value a, Value b) { return _mm512_or_si512(a, b); }
  static void store(std::byte* to, Value value) { _mm512_storeu_si512(to, value); }
#if defined(__AVX512VBMI__)
  using Lanes = __mmask64;
  static constexpr std::uint64_t kUnit = 1;
  static Value pick(Lanes lanes, Value index, const std::byte* from) {
    return _mm512_maskz_permutexvar_epi8(lanes, index, load(from));
  }
  static void store_some(std::byte* to, std::uint64_t keep, Value value) {
    _mm512_mask_storeu_epi8(to, static_cast<__mmask64>(keep), value);
  }
#else
  using Lanes = __mmask16;
  static constexpr std::uint64_t kUnit = 4;
  static Value pick(Lanes lanes, Value index, const std::byte* from) {
    return _mm512_maskz_permutexvar_epi32(lanes, index, load(from));
  }
  static void store_some(std::byte* to, std::uint64_t keep, Value value) {
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(keep), value);
  }
#endif
};
#endif

#endif

#if defined(__SSSE3__) || defined(HOLDFAST_NEON)

template <class Vector, bool kWhole>
void put(std::byte* to, std::uint64_t keep, typename Vector::Value value) {
  if constexpr (kWhole) {
    Vector::store(to, value);
  } else {
    Vector::store_some(to, keep, value);
  }
}

// One chunk, whose permutations stay in registers.
template <class Vector, bool kWhole, std::uint64_t kTerms>
void shuffle_one(const ShuffleRun& given) {
  const ShuffleRun run = given;
  typename Vector::Value index[kTerms];
  typename Vector::Lanes lanes[kTerms];
  std::int64_t source[kTerms];
  for (std::uint64_t t = 0; t < kTerms; ++t) {
    index[t] = Vector::load(run.indices + t * Vector::kBytes);
    lanes[t] = static_cast<typename Vector::Lanes>(run.lanes[t]);
    source[t] = run.sources[t];
  }
  const std::uint64_t keep = run.keep[0];
  const std::byte* from = run.from;
  std::byte* to = run.to + run.targets[0];
  for (std::uint64_t g = 0; g < run.groups; ++g) {
    auto value = Vector::pick(lanes[0], index[0], from + source[0]);
    for (std::uint64_t t = 1; t < kTerms; ++t) {
      value = Vector::join(value, Vector::pick(lanes[t], index[t], from + source[t]));
    }
    put<Vector, kWhole>(to, keep, value);
    from += run.from_step;
    to += run.to_step;
  }
}

template <class Vector, bool kWhole>
void shuffle_any(const ShuffleRun& given) {
  const ShuffleRun run = given;
  const std::byte* from = run.from;
  std::byte* to = run.to;
  for (std::uint64_t g = 0; g < run.groups; ++g) {
    std::uint64_t term = 0;
    for (std::uint64_t c = 0; c < run.chunks; ++c) {
      const auto pick = [&] {
        const auto value = Vector::pick(static_cast<typename Vector::Lanes>(run.lanes[term]),
                                        Vector::load(run.indices + term * Vector::kBytes),
                                        from + run.sources[term]);
        ++term;
        return value;
      };
      auto value = pick();
      for (std::uint64_t t = 1; t < run.terms; ++t) value = Vector::join(value, pick());
      put<Vector, kWhole>(to + run.targets[c], run.keep[c], value);
    }
    from += run.from_step;
    to += run.to_step;
  }
}

template <class Vector, bool kWhole>
ShuffleLoop shuffle_loop(std::uint64_t chunks, std::uint64_t terms) {
  if (chunks == 1) {
    switch (terms) {
      case 1: return shuffle_one<Vector, kWhole, 1>;
      case 2: return shuffle_one<Vector, kWhole, 2>;
      case 3: return shuffle_one<Vector, kWhole, 3>;
      case 4: return shuffle_one<Vector, kWhole, 4>;
      case 5: return shuffle_one<Vector, kWhole, 5>;
      case 6: return shuffle_one<Vector, kWhole, 6>;
      default: break;
    }
  }
  return shuffle_any<Vector, kWhole>;
}

[[maybe_unused]] ShuffleForm narrow_shuffles() {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  return {16, 1, shuffle_loop<Vector16, true>, shuffle_loop<Vector16, false>};
#else
  return {16, 1, shuffle_loop<Vector16, true>, nullptr};
#endif
}

[[maybe_unused]] ShuffleForm wide_shuffles() {
#if defined(__AVX512BW__)
  return {64, Vector64::kUnit, shuffle_loop<Vector64, true>, shuffle_loop<Vector64, false>};
#else
  return {};
#endif
}

#else

[[maybe_unused]] ShuffleForm narrow_shuffles() { return {}; }
[[maybe_unused]] ShuffleForm wide_shuffles() { return {}; }

#endif

}  // namespace
}  // namespace holdfast::datatype
