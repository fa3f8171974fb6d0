// Vectors of 32 bytes; see row_loops.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstring>

#include "erasure/loops/kernels.h"

namespace holdfast::erasure {
namespace {

inline constexpr std::size_t kWidth = 32;
inline constexpr std::size_t kRegisters = 16;

struct Vector {
  __m256i v;
};

inline Vector operator^(Vector a, Vector b) { return {_mm256_xor_si256(a.v, b.v)}; }
inline Vector zero() { return {_mm256_setzero_si256()}; }
inline Vector load(const std::byte* from) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
}
inline void store(std::byte* to, Vector x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x.v);
}
// Past the caches, to an aligned place.
inline void store_past(std::byte* to, Vector x) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), x.v);
}
// Such stores are ordered before those that follow.
inline void await_past() { _mm_sfence(); }

// The first `bytes` of a vector, less than all; what is loaded beyond is zero.
inline Vector load_some(const std::byte* from, std::size_t bytes) {
  Vector x = zero();
  std::memcpy(&x, from, bytes);
  return x;
}
inline void store_some(std::byte* to, std::size_t bytes, Vector x) { std::memcpy(to, &x, bytes); }

// Sixteen bytes in both halves, and the halves of all bytes as indices into them.
[[maybe_unused]] inline Vector repeat16(const Symbol* table) {
  return {_mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)))};
}
[[maybe_unused]] inline Vector shuffled(Vector table, Vector index) {
  return {_mm256_shuffle_epi8(table.v, index.v)};
}
[[maybe_unused]] inline Vector low_halves(Vector x) {
  return {_mm256_and_si256(x.v, _mm256_set1_epi8(0x0f))};
}
[[maybe_unused]] inline Vector high_halves(Vector x) {
  return low_halves({_mm256_srli_epi64(x.v, 4)});
}
[[maybe_unused]] inline Vector xor3(Vector a, Vector b, Vector c) { return a ^ b ^ c; }

#if defined(__GFNI__)
inline Vector repeat8(std::uint64_t bits) {
  return {_mm256_set1_epi64x(static_cast<long long>(bits))};
}
inline Vector times_matrix(Vector x, Vector matrix) {
  return {_mm256_gf2p8affine_epi64_epi8(x.v, matrix.v, 0)};
}
#endif

}  // namespace
}  // namespace holdfast::erasure
