#include "datatype/array_shape.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/check.h"

namespace holdfast::datatype {
namespace {

struct Dim {
  std::uint64_t count;
  std::int64_t stride;
};

std::int64_t reach(const Dim& dim) { return static_cast<std::int64_t>(dim.count - 1) * dim.stride; }

// The dimensions of the same memory, without those of one element, and with contiguous ones merged.
std::vector<Dim> merged(const ArrayShape& shape) {
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < shape.count.size(); ++i) {
    const Dim dim{shape.count[i], shape.stride[i]};
    if (dim.count == 1) continue;
    const std::int64_t run = static_cast<std::int64_t>(dim.count) * dim.stride;
    if (!dims.empty() && dims.back().stride == run) {
      dims.back() = {dims.back().count * dim.count, dim.stride};
    } else {
      dims.push_back(dim);
    }
  }
  return dims;
}

// Adds the piece, cut into parts that are small enough for a kernel to count their units.
void add(std::vector<ArrayPiece>& all, const ArrayPiece& piece) {
  if (piece.shape.bytes() < kMostUnits) {
    all.push_back(piece);
    return;
  }
  ArrayPiece first = piece;
  ArrayPiece rest = piece;
  const auto dim = static_cast<std::uint32_t>(
      std::ranges::find_if(piece.shape.count, [](std::uint64_t n) { return n > 1; }) -
      piece.shape.count.begin());
  if (dim < kMostDims) {
    const std::uint64_t half = piece.shape.count[dim] / 2;
    first.shape.count[dim] = half;
    rest.shape.count[dim] -= half;
    rest.strided_offset += static_cast<std::int64_t>(half) * piece.shape.stride[dim];
  } else {
    const std::uint64_t half = piece.shape.block_bytes / 32 * 16;
    first.shape.block_bytes = half;
    rest.shape.block_bytes -= half;
    rest.strided_offset += static_cast<std::int64_t>(half);
  }
  rest.packed_offset += first.shape.bytes();
  add(all, first);
  add(all, rest);
}

}  // namespace

std::uint64_t packed_bytes(const ArrayShape& shape) {
  std::uint64_t bytes = shape.element_bytes;
  for (const std::uint64_t count : shape.count) bytes *= count;
  return bytes;
}

ArrayExtent extent(const ArrayShape& shape) {
  if (packed_bytes(shape) == 0) return {};
  ArrayExtent all{0, static_cast<std::int64_t>(shape.element_bytes)};
  for (std::size_t i = 0; i < shape.count.size(); ++i) {
    const std::int64_t far = reach({shape.count[i], shape.stride[i]});
    (far < 0 ? all.low : all.high) += far;
  }
  return all;
}

bool may_overlap(const ArrayShape& shape) {
  if (packed_bytes(shape) == 0) return false;
  std::vector<Dim> dims = merged(shape);
  for (Dim& dim : dims) dim.stride = std::abs(dim.stride);
  std::ranges::sort(dims, {}, &Dim::stride);
  auto taken = static_cast<std::int64_t>(shape.element_bytes);
  for (const Dim& dim : dims) {
    if (dim.stride < taken) return true;
    taken += reach(dim);
  }
  return false;
}

Result<std::vector<ArrayPiece>> pieces(const ArrayShape& shape) {
  CHECK(shape.count.size() == shape.stride.size());
  std::vector<ArrayPiece> all;
  if (packed_bytes(shape) == 0) return all;
  std::vector<Dim> dims = merged(shape);
  ArrayPiece piece;
  piece.shape.block_bytes = shape.element_bytes;
  if (!dims.empty() && dims.back().stride == static_cast<std::int64_t>(shape.element_bytes)) {
    piece.shape.block_bytes *= dims.back().count;
    dims.pop_back();
  }
  // A piece has the innermost dimensions; there is one piece for each index of the outer ones.
  const std::size_t outer = dims.size() > kMostDims ? dims.size() - kMostDims : 0;
  for (std::size_t i = outer; i < dims.size(); ++i) {
    const std::size_t at = kMostDims - (dims.size() - i);
    piece.shape.count[at] = dims[i].count;
    piece.shape.stride[at] = dims[i].stride;
  }
  std::uint64_t many = 1;
  for (std::size_t i = 0; i < outer && many <= kMostPieces; ++i) many *= dims[i].count;
  if (many > kMostPieces) {
    return Status(Code::kUnsupported,
                  "an array of " + std::to_string(dims.size()) +
                      " dimensions with gaps between all of them; accepted: up to " +
                      std::to_string(kMostDims + 1) + ", or further ones with " +
                      std::to_string(kMostPieces) + " indices in all");
  }
  for (std::uint64_t n = 0; n < many; ++n) {
    ArrayPiece one = piece;
    one.packed_offset = n * piece.shape.bytes();
    std::uint64_t rest = n;
    for (std::size_t i = outer; i-- > 0;) {
      one.strided_offset += static_cast<std::int64_t>(rest % dims[i].count) * dims[i].stride;
      rest /= dims[i].count;
    }
    add(all, one);
  }
  return all;
}

}  // namespace holdfast::datatype
