// Constants as matrices of bits, which an instruction multiplies each byte by; after a level's
// vectors.
#pragma once

namespace holdfast::erasure {
namespace {

using StoredFactor = std::uint64_t;
using Factor = Vector;
using Operand = Vector;

inline StoredFactor stored(Symbol constant) { return kMultipliers.of[constant].bits; }
inline Factor loaded(StoredFactor factor) { return repeat8(factor); }
inline Operand operand_of(Vector x) { return x; }
inline Vector add_product(Vector sum, Factor by, Operand x) { return sum ^ times_matrix(x, by); }

// Vectors of an input whose sums are in registers together.
constexpr std::size_t vectors_at_once(std::size_t rows, bool sum) {
  if (rows == 1 && sum) return 4;
  const std::size_t fit = (kRegisters - 2) / (rows + 1);  // a matrix and a product
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

}  // namespace
}  // namespace holdfast::erasure
