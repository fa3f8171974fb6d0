// Array shape: turns arrays with gaps, of any number of dimensions at any strides, into strided
// shapes that pack() and the kernels take.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "datatype/strided.h"

namespace holdfast::datatype {

struct ArrayShape {
  std::uint64_t element_bytes = 0;
  std::vector<std::uint64_t> count;  // the last one fastest
  std::vector<std::int64_t> stride;  // bytes; as many as counts
};

// A part of an array, as a run of bytes of its packed form.
struct ArrayPiece {
  Strided shape;
  std::int64_t strided_offset = 0;  // from the array's first element
  std::uint64_t packed_offset = 0;
};
// Most pieces of an array. Each piece is one kernel launch; arrays of more are packed by lists of
// blocks (device_comm/device_layout.h).
inline constexpr std::size_t kMostPieces = 4096;

// Bytes from the first element's address to the lowest element, and to the end of the highest one.
struct ArrayExtent {
  std::int64_t low = 0;
  std::int64_t high = 0;
};

std::uint64_t packed_bytes(const ArrayShape& shape);
ArrayExtent extent(const ArrayShape& shape);
// Whether two elements may share memory, because no order of the dimensions keeps them apart.
bool may_overlap(const ArrayShape& shape);
// The pieces of an array in the order of the packed form, none when there are no elements. Each has
// fewer than kMostUnits bytes. Returns kUnsupported for an array with too many indices beyond the
// dimensions that one piece has (see kMostPieces).
Result<std::vector<ArrayPiece>> pieces(const ArrayShape& shape);

}  // namespace holdfast::datatype
