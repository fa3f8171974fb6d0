#include "erasure/matrix.h"

#include <algorithm>

#include "base/check.h"

namespace holdfast::erasure {
namespace {

void scale(std::span<Symbol> row, Symbol by) {
  for (Symbol& each : row) each = times(each, by);
}

void add_multiple(std::span<Symbol> row, std::span<const Symbol> other, Symbol by) {
  for (std::size_t i = 0; i < row.size(); ++i) row[i] ^= times(other[i], by);
}

}  // namespace

SymbolMatrix SymbolMatrix::identity(std::size_t size) {
  SymbolMatrix out(size, size);
  for (std::size_t i = 0; i < size; ++i) out.at(i, i) = 1;
  return out;
}

// Gauss and Jordan's elimination. Any pivot will do: nothing is rounded.
std::optional<SymbolMatrix> SymbolMatrix::inverted() const {
  CHECK(rows_ == columns_);
  SymbolMatrix left = *this;
  SymbolMatrix right = identity(rows_);
  for (std::size_t pivot = 0; pivot < rows_; ++pivot) {
    std::size_t found = pivot;
    while (found < rows_ && left.at(found, pivot) == 0) ++found;
    if (found == rows_) return std::nullopt;
    if (found != pivot) {
      std::ranges::swap_ranges(left.row(found), left.row(pivot));
      std::ranges::swap_ranges(right.row(found), right.row(pivot));
    }
    const Symbol by = inverse(left.at(pivot, pivot));
    scale(left.row(pivot), by);
    scale(right.row(pivot), by);
    for (std::size_t row = 0; row < rows_; ++row) {
      const Symbol times_pivot = left.at(row, pivot);
      if (row == pivot || times_pivot == 0) continue;
      add_multiple(left.row(row), left.row(pivot), times_pivot);
      add_multiple(right.row(row), right.row(pivot), times_pivot);
    }
  }
  return right;
}

SymbolMatrix operator*(const SymbolMatrix& a, const SymbolMatrix& b) {
  CHECK(a.columns_ == b.rows_);
  SymbolMatrix out(a.rows_, b.columns_);
  for (std::size_t row = 0; row < a.rows_; ++row) {
    for (std::size_t i = 0; i < b.rows_; ++i) add_multiple(out.row(row), b.row(i), a.at(row, i));
  }
  return out;
}

}  // namespace holdfast::erasure
