// Vectors of 16 bytes; see row_loops.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstring>

#include "erasure/loops/kernels.h"

namespace holdfast::erasure {
namespace {

inline constexpr std::size_t kWidth = 16;
inline constexpr std::size_t kRegisters = 32;

struct Vector {
  uint8x16_t v;
};

inline const std::uint8_t* as_bytes(const std::byte* from) {
  return reinterpret_cast<const std::uint8_t*>(from);
}
inline std::uint8_t* as_bytes(std::byte* to) { return reinterpret_cast<std::uint8_t*>(to); }

inline Vector operator^(Vector a, Vector b) { return {veorq_u8(a.v, b.v)}; }
inline Vector zero() { return {vdupq_n_u8(0)}; }
inline Vector load(const std::byte* from) { return {vld1q_u8(as_bytes(from))}; }
inline void store(std::byte* to, Vector x) { vst1q_u8(as_bytes(to), x.v); }
// Stores that pass the caches by have no intrinsic; such processors see long runs of stores.
inline void store_past(std::byte* to, Vector x) { store(to, x); }
inline void await_past() {}

// The first `bytes` of a vector, less than all; what is loaded beyond is zero.
inline Vector load_some(const std::byte* from, std::size_t bytes) {
  Vector x = zero();
  std::memcpy(&x, from, bytes);
  return x;
}
inline void store_some(std::byte* to, std::size_t bytes, Vector x) { std::memcpy(to, &x, bytes); }

// Sixteen bytes, and the halves of all bytes as indices into them.
inline Vector repeat16(const Symbol* table) { return {vld1q_u8(table)}; }
inline Vector shuffled(Vector table, Vector index) { return {vqtbl1q_u8(table.v, index.v)}; }
inline Vector low_halves(Vector x) { return {vandq_u8(x.v, vdupq_n_u8(0x0f))}; }
inline Vector high_halves(Vector x) { return {vshrq_n_u8(x.v, 4)}; }
inline Vector xor3(Vector a, Vector b, Vector c) { return a ^ b ^ c; }

}  // namespace
}  // namespace holdfast::erasure
