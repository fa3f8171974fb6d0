// Code places: which part of whose body lies in which codeword, and who holds which parity.
//
// A group of n = k + m members has n codewords. Codeword j has parity row i on member j + i, and
// data of the k others: member j + m + c (all modulo n) has its column c. So slice c of a member's
// body is column c of one codeword; everybody holds m rows, and whoever is lost takes one part of
// each codeword along. Bodies are cut into slices of as many whole tiles as the group's largest
// needs; what a smaller body lacks counts as zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace holdfast::ft {

struct CodePlace {
  bool is_parity = false;
  int index = 0;  // the slice of the body, or the row
  friend bool operator==(const CodePlace&, const CodePlace&) = default;
};

class CodePlaces {
 public:
  CodePlaces(int data, int parity) : data_(data), parity_(parity) {}

  int members() const { return data_ + parity_; }
  int data() const { return data_; }
  int parity() const { return parity_; }
  CodePlace place(int member, int codeword) const {
    const int row = wrapped(member - codeword);
    return row < parity_ ? CodePlace{true, row} : CodePlace{false, row - parity_};
  }
  // Who has this column or row of a codeword.
  int member_of_column(int codeword, int column) const {
    return wrapped(codeword + parity_ + column);
  }
  int member_of_row(int codeword, int row) const { return wrapped(codeword + row); }
  int codeword_of_slice(int member, int slice) const { return wrapped(member - parity_ - slice); }
  int codeword_of_row(int member, int row) const { return wrapped(member - row); }

 private:
  int wrapped(int number) const {
    const int n = members();
    return (number % n + n) % n;
  }

  int data_;
  int parity_;
};

struct ByteSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // exclusive
  std::uint64_t size() const { return end - begin; }
  friend bool operator==(const ByteSpan&, const ByteSpan&) = default;
};

// The same for bytes: what each member codes and holds, whatever the sizes of the bodies.
class CodeSizes {
 public:
  CodeSizes(CodePlaces places, std::uint64_t tile_bytes, std::vector<std::uint64_t> bodies)
      : places_(places), tile_bytes_(tile_bytes), bodies_(std::move(bodies)) {
    const std::uint64_t most =
        bodies_.empty() ? 0 : *std::max_element(bodies_.begin(), bodies_.end());
    const std::uint64_t tiles = (most + tile_bytes_ - 1) / tile_bytes_;
    const auto data = static_cast<std::uint64_t>(places_.data());
    slice_tiles_ = (tiles + data - 1) / data;
  }

  const CodePlaces& places() const { return places_; }
  std::uint64_t slice_tiles() const { return slice_tiles_; }
  // Bytes of the member's body that are its slice; empty beyond its end.
  ByteSpan slice(int member, int slice) const {
    const std::uint64_t body = bodies_.at(static_cast<std::size_t>(member));
    const std::uint64_t step = slice_tiles_ * tile_bytes_;
    const auto number = static_cast<std::uint64_t>(slice);
    return {std::min(body, number * step), std::min(body, (number + 1) * step)};
  }
  // A row is as long as the longest slice of its codeword.
  std::uint64_t row_bytes(int codeword) const {
    std::uint64_t most = 0;
    for (int column = 0; column < places_.data(); ++column) {
      most = std::max(most, slice(places_.member_of_column(codeword, column), column).size());
    }
    return most;
  }
  // Where a member's row begins in its parity: rows lie one behind the other, from row 0 on.
  std::uint64_t row_at(int member, int row) const {
    std::uint64_t at = 0;
    for (int i = 0; i < row; ++i) at += row_bytes(places_.codeword_of_row(member, i));
    return at;
  }
  std::uint64_t parity_bytes(int member) const { return row_at(member, places_.parity()); }

 private:
  CodePlaces places_;
  std::uint64_t tile_bytes_;
  std::vector<std::uint64_t> bodies_;
  std::uint64_t slice_tiles_ = 0;
};

}  // namespace holdfast::ft
