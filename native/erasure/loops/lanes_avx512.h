// Vectors of 64 bytes; see row_loops.h.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "erasure/loops/kernels.h"

namespace holdfast::erasure {
namespace {

inline constexpr std::size_t kWidth = 64;
inline constexpr std::size_t kRegisters = 32;

struct Vector {
  __m512i v;
};

inline Vector operator^(Vector a, Vector b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline Vector zero() { return {_mm512_setzero_si512()}; }
inline Vector load(const std::byte* from) { return {_mm512_loadu_si512(from)}; }
inline void store(std::byte* to, Vector x) { _mm512_storeu_si512(to, x.v); }
// Past the caches, to an aligned place.
inline void store_past(std::byte* to, Vector x) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), x.v);
}
// Such stores are ordered before those that follow.
inline void await_past() { _mm_sfence(); }

// The first `bytes` of a vector, less than all; what is loaded beyond is zero.
inline __mmask64 first(std::size_t bytes) { return (std::uint64_t{1} << bytes) - 1; }
inline Vector load_some(const std::byte* from, std::size_t bytes) {
  return {_mm512_maskz_loadu_epi8(first(bytes), from)};
}
inline void store_some(std::byte* to, std::size_t bytes, Vector x) {
  _mm512_mask_storeu_epi8(to, first(bytes), x.v);
}

// Sixteen bytes in all quarters, and the halves of all bytes as indices into them.
[[maybe_unused]] inline Vector repeat16(const Symbol* table) {
  return {_mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(table)))};
}
[[maybe_unused]] inline Vector shuffled(Vector table, Vector index) {
  return {_mm512_shuffle_epi8(table.v, index.v)};
}
[[maybe_unused]] inline Vector low_halves(Vector x) {
  return {_mm512_and_si512(x.v, _mm512_set1_epi8(0x0f))};
}
[[maybe_unused]] inline Vector high_halves(Vector x) {
  return low_halves({_mm512_srli_epi64(x.v, 4)});
}
[[maybe_unused]] inline Vector xor3(Vector a, Vector b, Vector c) {
  return {_mm512_ternarylogic_epi64(a.v, b.v, c.v, 0x96)};
}

#if defined(__GFNI__)
inline Vector repeat8(std::uint64_t bits) {
  return {_mm512_set1_epi64(static_cast<long long>(bits))};
}
inline Vector times_matrix(Vector x, Vector matrix) {
  return {_mm512_gf2p8affine_epi64_epi8(x.v, matrix.v, 0)};
}
#endif

}  // namespace
}  // namespace holdfast::erasure
