// Small matrices over the field: what a code is made of, and what a loss has inverted.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "erasure/field.h"

namespace holdfast::erasure {

class SymbolMatrix {
 public:
  SymbolMatrix(std::size_t rows, std::size_t columns)
      : rows_(rows), columns_(columns), symbols_(rows * columns) {}
  static SymbolMatrix identity(std::size_t size);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  Symbol& at(std::size_t row, std::size_t column) { return symbols_[row * columns_ + column]; }
  Symbol at(std::size_t row, std::size_t column) const { return symbols_[row * columns_ + column]; }
  std::span<Symbol> row(std::size_t row) {
    return std::span(symbols_).subspan(row * columns_, columns_);
  }
  std::span<const Symbol> row(std::size_t row) const {
    return std::span(symbols_).subspan(row * columns_, columns_);
  }
  // All symbols, row by row.
  std::span<const Symbol> symbols() const { return symbols_; }

  // Nothing when rows depend on each other.
  std::optional<SymbolMatrix> inverted() const;

  friend SymbolMatrix operator*(const SymbolMatrix& a, const SymbolMatrix& b);
  bool operator==(const SymbolMatrix&) const = default;

 private:
  std::size_t rows_;
  std::size_t columns_;
  std::vector<Symbol> symbols_;
};

}  // namespace holdfast::erasure
