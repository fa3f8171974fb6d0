// The inner loop of the code: sums of multiplied tiles. It checks no sizes. It is compiled once per
// instruction level; every level writes the same bytes.
//
// Multiplication by a constant is linear over GF(2): it is two tables of sixteen products, one for
// each half of a byte, which processors look up by byte shuffles (Plank, Greenan, Miller,
// "Screaming fast Galois field arithmetic using Intel SIMD instructions", FAST 2013), or a matrix
// of 8 x 8 bits, which others multiply by in one instruction, whatever the polynomial (Intel,
// "Galois Field New Instructions technology guide").
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "erasure/field.h"

namespace holdfast::erasure {

// A constant, as the levels multiply by it.
struct Multiplier {
  alignas(16) Symbol low[16];  // its products with 0x00, 0x01, ... 0x0f
  Symbol high[16];             // and with 0x00, 0x10, ... 0xf0
  std::uint64_t bits;          // the matrix, as gf2p8affineqb takes it
};
struct MultiplierTable {
  Multiplier of[256];  // by constant
};
extern const MultiplierTable kMultipliers;

// Outputs of one run: as many as have their sums in registers beside what multiplies.
inline constexpr std::size_t kMostRows = 6;
inline constexpr std::size_t kMostInputs = 32;
// Where outputs that go past the caches begin: the longest vector, and a cache line.
inline constexpr std::size_t kLineBytes = 64;

// Bytes [begin, end) of outputs[r] = the sum over i of coefficients[r * count + i] * inputs[i].
struct ProductRun {
  const std::byte* const* inputs;
  std::byte* const* outputs;
  const Symbol* coefficients;
  std::size_t count;  // of inputs
  std::size_t rows;   // outputs, kMostRows at most
  std::size_t begin;
  std::size_t end;
  bool add;   // to what the output has; of one row alone
  bool past;  // the caches; outputs[r] + begin are at cache lines, and nothing is added
};
using ProductLoop = void (*)(const ProductRun&);

ProductLoop product_loop_reference();
ProductLoop product_loop_baseline();
#if defined(__x86_64__)
ProductLoop product_loop_avx2();
ProductLoop product_loop_avx512();
ProductLoop product_loop_galois256();  // AVX2 with GFNI
ProductLoop product_loop_galois512();  // AVX-512 with GFNI
#elif defined(__aarch64__)
ProductLoop product_loop_neon();
#endif

}  // namespace holdfast::erasure
