// bfloat's planes: an element's sign and mantissa in a byte, and its exponent in three bits, which
// count up from the block's base. Code seven is an escape: the exponents of escaped elements follow
// in a list of bytes. The codes of 32 elements are three words, one per bit.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "compress/loops/kernels.h"
#include "compress/loops/lanes.h"

namespace holdfast::compress {
namespace {

inline constexpr std::uint32_t kGroup = 32;  // elements whose codes are three words
// Prefetch distance in bytes: one block of the fast tier, because a block's exponents are sampled
// before it is read.
inline constexpr std::size_t kAhead = 16384;

struct Codes {
  std::uint32_t bit[3];

  std::uint32_t escapes() const { return bit[0] & bit[1] & bit[2]; }
};

// Copies word by word: a wider copy would wait for the words to be written.
inline void store_codes(std::byte* to, const Codes& codes) {
  for (std::size_t j = 0; j < 3; ++j) std::memcpy(to + 4 * j, &codes.bit[j], 4);
}
inline Codes load_codes(const std::byte* from) {
  Codes codes;
  for (std::size_t j = 0; j < 3; ++j) std::memcpy(&codes.bit[j], from + 4 * j, 4);
  return codes;
}

inline std::uint16_t element_at(const std::byte* from, std::uint32_t i) {
  std::uint16_t x = 0;
  std::memcpy(&x, from + 2 * i, sizeof x);
  return x;
}

// Copies the exponents of the elements in the mask. Their number is random, so branches would be
// mispredicted: the first few are always copied, even where the mask has fewer.
inline std::byte* copy_escapes(const std::byte* in, std::uint32_t mask, std::byte* escape) {
  constexpr int kFew = 3;
  const auto copy_one = [&](std::byte* to) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(mask | 1U << 31));
    *to = static_cast<std::byte>(element_at(in, i) >> 7 & 0xff);
    mask &= mask - 1;
  };
  std::byte* const end = escape + std::popcount(mask);
  for (int j = 0; j < kFew; ++j) copy_one(escape + j);
  for (escape += kFew; escape < end; ++escape) copy_one(escape);
  return end;
}

// The inverse of copy_escapes(): puts escaped exponents among those of a group. Copies beyond the
// mask's elements land on the next group, which is not written yet.
inline const std::byte* place_escapes(const std::byte* escape, std::uint32_t mask, std::byte* to) {
  constexpr int kFew = 3;
  std::uint64_t left = mask | std::uint64_t{1} << kGroup;
  const std::byte* const end = escape + std::popcount(mask);
  const auto place_one = [&](const std::byte* from) {
    to[std::countr_zero(left)] = *from;
    left = (left & (left - 1)) | std::uint64_t{1} << kGroup;
  };
  for (int j = 0; j < kFew; ++j) place_one(escape + j);
  for (escape += kFew; escape < end; ++escape) place_one(escape);
  return end;
}

#if !defined(HOLDFAST_PLAIN_LANES) && defined(__AVX2__)
// `code`: bytes below eight.
inline Codes codes_of(__m256i code) {
  return {{static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(code, 7))),
           static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(code, 6))),
           static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(code, 5)))}};
}
#endif

#if !defined(HOLDFAST_PLAIN_LANES) && defined(__AVX512BW__) && defined(__AVX512VL__)

inline __m512i all_of(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
inline __m512i rests(__m512i x) {
  return _mm512_or_si512(_mm512_and_si512(x, all_of(0x7f)),
                         _mm512_and_si512(_mm512_srli_epi16(x, 8), all_of(0x80)));
}
inline __m512i load_group(const std::byte* from) { return _mm512_loadu_si512(from); }
inline void store_bytes(std::byte* to, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x);
}
inline __m512i load_wide(const std::byte* from) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

inline std::byte* split_group(const std::byte* in, std::uint32_t base, std::byte* rest,
                              Codes& codes, std::byte* escape) {
  const __m512i x = load_group(in);
  store_bytes(rest, _mm512_cvtepi16_epi8(rests(x)));
  const __m256i above = _mm256_sub_epi8(_mm512_cvtepi16_epi8(_mm512_srli_epi16(x, 7)),
                                        _mm256_set1_epi8(static_cast<char>(base)));
  const __m256i code = _mm256_min_epu8(above, _mm256_set1_epi8(7));
  codes = codes_of(code);
  return copy_escapes(in, codes.escapes(), escape);
}

inline void join(const std::byte* rest, __m512i exponent, std::byte* out) {
  const __m512i x = load_wide(rest);
  const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(x, all_of(0x80)), 8);
  const __m512i low = _mm512_or_si512(_mm512_and_si512(x, all_of(0x7f)), sign);
  _mm512_storeu_si512(out, _mm512_or_si512(low, _mm512_slli_epi16(exponent, 7)));
}

inline void store_exponents(const Codes& codes, std::uint32_t base, std::byte* to) {
  const __m256i bases = _mm256_set1_epi8(static_cast<char>(base));
  const __m256i low = _mm256_mask_add_epi8(bases, codes.bit[0], bases, _mm256_set1_epi8(1));
  const __m256i middle = _mm256_mask_add_epi8(low, codes.bit[1], low, _mm256_set1_epi8(2));
  store_bytes(to, _mm256_mask_add_epi8(middle, codes.bit[2], middle, _mm256_set1_epi8(4)));
}

inline void part_group(const std::byte* in, std::byte* rest, std::byte* exponent) {
  const __m512i x = load_group(in);
  store_bytes(rest, _mm512_cvtepi16_epi8(rests(x)));
  store_bytes(exponent, _mm512_cvtepi16_epi8(_mm512_srli_epi16(x, 7)));
}
inline void merge_group(const std::byte* rest, const std::byte* exponent, std::byte* out) {
  join(rest, load_wide(exponent), out);
}

#elif !defined(HOLDFAST_PLAIN_LANES) && defined(__AVX2__)

inline __m256i all_of(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
struct ElementGroup {
  __m256i a;
  __m256i b;
};
inline ElementGroup load_group(const std::byte* from) {
  const auto* in = reinterpret_cast<const __m256i*>(from);
  return {_mm256_loadu_si256(in), _mm256_loadu_si256(in + 1)};
}
inline __m256i narrow(__m256i a, __m256i b) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
}
inline void store_narrow(std::byte* to, __m256i bytes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
}
inline __m256i exponents(__m256i x) {
  return _mm256_and_si256(_mm256_srli_epi16(x, 7), all_of(0xff));
}
inline __m256i rests(__m256i x) {
  return _mm256_or_si256(_mm256_and_si256(x, all_of(0x7f)),
                         _mm256_and_si256(_mm256_srli_epi16(x, 8), all_of(0x80)));
}

inline std::byte* split_group(const std::byte* in, std::uint32_t base, std::byte* rest,
                              Codes& codes, std::byte* escape) {
  const ElementGroup x = load_group(in);
  store_narrow(rest, narrow(rests(x.a), rests(x.b)));
  const __m256i bases = all_of(static_cast<int>(base));
  const __m256i code = narrow(_mm256_min_epu16(_mm256_sub_epi16(exponents(x.a), bases), all_of(7)),
                              _mm256_min_epu16(_mm256_sub_epi16(exponents(x.b), bases), all_of(7)));
  codes = codes_of(code);
  return copy_escapes(in, codes.escapes(), escape);
}

inline __m256i join_half(__m128i rest, __m256i exponent) {
  const __m256i x = _mm256_cvtepu8_epi16(rest);
  const __m256i sign = _mm256_slli_epi16(_mm256_and_si256(x, all_of(0x80)), 8);
  const __m256i low = _mm256_or_si256(_mm256_and_si256(x, all_of(0x7f)), sign);
  return _mm256_or_si256(low, _mm256_slli_epi16(exponent, 7));
}
inline void join(const std::byte* rest, __m256i a, __m256i b, std::byte* out) {
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rest));
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, join_half(_mm256_castsi256_si128(all), a));
  _mm256_storeu_si256(to + 1, join_half(_mm256_extracti128_si256(all, 1), b));
}
// Spreads 32 bits to 32 bytes, with `value` where the bit is one.
inline __m256i spread(std::uint32_t bits, int value) {
  const __m256i place =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i select = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  const __m256i all = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), place);
  const __m256i is_one = _mm256_cmpeq_epi8(_mm256_and_si256(all, select), select);
  return _mm256_and_si256(is_one, _mm256_set1_epi8(static_cast<char>(value)));
}
inline void store_exponents(const Codes& codes, std::uint32_t base, std::byte* to) {
  const __m256i low = _mm256_or_si256(spread(codes.bit[0], 1), spread(codes.bit[1], 2));
  const __m256i code = _mm256_or_si256(low, spread(codes.bit[2], 4));
  store_narrow(to, _mm256_add_epi8(code, _mm256_set1_epi8(static_cast<char>(base))));
}
inline void part_group(const std::byte* in, std::byte* rest, std::byte* exponent) {
  const ElementGroup x = load_group(in);
  store_narrow(rest, narrow(rests(x.a), rests(x.b)));
  store_narrow(exponent, narrow(exponents(x.a), exponents(x.b)));
}
inline void merge_group(const std::byte* rest, const std::byte* exponent, std::byte* out) {
  const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(exponent));
  join(rest, _mm256_cvtepu8_epi16(_mm256_castsi256_si128(all)),
       _mm256_cvtepu8_epi16(_mm256_extracti128_si256(all, 1)), out);
}

#else

inline std::byte rest_of(std::uint32_t x) {
  return static_cast<std::byte>((x & 0x7fU) | (x >> 8 & 0x80U));
}
inline std::byte* split_group(const std::byte* in, std::uint32_t base, std::byte* rest,
                              Codes& codes, std::byte* escape) {
  codes = {};
  for (std::uint32_t i = 0; i < kGroup; ++i) {
    const std::uint32_t x = element_at(in, i);
    rest[i] = rest_of(x);
    const std::uint32_t above = ((x >> 7 & 0xffU) - base) & 0xffffU;
    const std::uint32_t code = above < 7 ? above : 7;
    for (std::uint32_t j = 0; j < 3; ++j) codes.bit[j] |= (code >> j & 1U) << i;
  }
  return copy_escapes(in, codes.escapes(), escape);
}
inline void store_exponents(const Codes& codes, std::uint32_t base, std::byte* to) {
  for (std::uint32_t i = 0; i < kGroup; ++i) {
    const std::uint32_t code =
        (codes.bit[0] >> i & 1U) | (codes.bit[1] >> i & 1U) << 1 | (codes.bit[2] >> i & 1U) << 2;
    to[i] = static_cast<std::byte>(base + code);
  }
}
inline void part_group(const std::byte* in, std::byte* rest, std::byte* exponent) {
  for (std::uint32_t i = 0; i < kGroup; ++i) {
    const std::uint32_t x = element_at(in, i);
    rest[i] = rest_of(x);
    exponent[i] = static_cast<std::byte>(x >> 7 & 0xffU);
  }
}
inline void merge_group(const std::byte* rest, const std::byte* exponent, std::byte* out) {
  for (std::uint32_t i = 0; i < kGroup; ++i) {
    const auto r = static_cast<std::uint32_t>(rest[i]);
    const auto e = static_cast<std::uint32_t>(exponent[i]);
    const auto x = static_cast<std::uint16_t>((r & 0x7fU) | (r & 0x80U) << 8 | e << 7);
    std::memcpy(out + 2 * i, &x, sizeof x);
  }
}

#endif

[[maybe_unused]] std::uint64_t split_loop(const SplitRun& shared) {
  const SplitRun run = shared;  // a local copy: writes through byte pointers could alias `shared`
  std::byte* escape = run.escapes;
  for (std::uint64_t g = 0; g < run.groups; ++g) {
    if (escape - run.escapes > run.most_escapes - std::int64_t{kGroup}) return kTooManyEscapes;
    const std::byte* const in = run.elements + 2 * kGroup * g;
    __builtin_prefetch(in + kAhead);
    Codes codes;
    escape = split_group(in, run.base, run.rest + kGroup * g, codes, escape);
    store_codes(run.codes + sizeof codes * g, codes);
  }
  return static_cast<std::uint64_t>(escape - run.escapes);
}

// Writes a tile of exponents first, which stays in the L1 cache, then its elements, so that escapes
// need no second pass over the elements.
[[maybe_unused]] std::uint64_t join_loop(const JoinRun& shared) {
  constexpr std::uint64_t kTile = 256;
  const JoinRun run = shared;
  std::array<std::byte, kGroup * kTile + kGroup> exponent;
  const std::byte* escape = run.escapes;
  for (std::uint64_t first = 0; first < run.groups; first += kTile) {
    const std::uint64_t end = first + kTile < run.groups ? first + kTile : run.groups;
    for (std::uint64_t g = first; g < end; ++g) {
      if (escape - run.escapes > run.most_escapes) return kTooManyEscapes;
      const Codes codes = load_codes(run.codes + sizeof(Codes) * g);
      std::byte* const to = exponent.data() + kGroup * (g - first);
      store_exponents(codes, run.base, to);
      escape = place_escapes(escape, codes.escapes(), to);
    }
    for (std::uint64_t g = first; g < end; ++g) {
      merge_group(run.rest + kGroup * g, exponent.data() + kGroup * (g - first),
                  run.elements + 2 * kGroup * g);
    }
  }
  return static_cast<std::uint64_t>(escape - run.escapes);
}

[[maybe_unused]] void part_loop(const std::byte* elements, std::uint64_t groups, std::byte* rest,
                                std::byte* exponents_out) {
  for (std::uint64_t g = 0; g < groups; ++g) {
    part_group(elements + 2 * kGroup * g, rest + kGroup * g, exponents_out + kGroup * g);
  }
}

[[maybe_unused]] void merge_loop(const std::byte* rest, const std::byte* exponents_in,
                                 std::uint64_t groups, std::byte* elements) {
  for (std::uint64_t g = 0; g < groups; ++g) {
    merge_group(rest + kGroup * g, exponents_in + kGroup * g, elements + 2 * kGroup * g);
  }
}

}  // namespace
}  // namespace holdfast::compress
