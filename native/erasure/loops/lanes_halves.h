// Constants as two tables, looked up by the halves of each byte; after a level's vectors.
#pragma once

namespace holdfast::erasure {
namespace {

using StoredFactor = const Multiplier*;
struct Factor {
  Vector low;
  Vector high;
};
struct Operand {
  Vector low;
  Vector high;
};

inline StoredFactor stored(Symbol constant) { return &kMultipliers.of[constant]; }
inline Factor loaded(StoredFactor factor) {
  return {repeat16(factor->low), repeat16(factor->high)};
}
inline Operand operand_of(Vector x) { return {low_halves(x), high_halves(x)}; }
inline Vector add_product(Vector sum, Factor by, Operand x) {
  return xor3(sum, shuffled(by.low, x.low), shuffled(by.high, x.high));
}

// Vectors of an input whose sums, halves and tables are in registers together.
constexpr std::size_t vectors_at_once(std::size_t rows, bool sum) {
  if (rows == 1 && sum) return 4;
  const std::size_t kept = kRegisters - 5;  // two tables, a mask, two of what is looked up
  const std::size_t each = rows + (sum ? 3 : 2);
  const std::size_t fit = kept / each;
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

}  // namespace
}  // namespace holdfast::erasure
