// Arrays as layouts: MPI's subarray and darray (MPI-4.1, 5.1.3 and 5.1.4), and arrays with gaps as
// array libraries have them, made of the constructors of layout.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "datatype/array_shape.h"
#include "datatype/layout.h"

namespace holdfast::datatype {

enum class ArrayOrder : std::uint8_t { kC, kFortran };  // the last index fastest, or the first

// Of an array of `sizes` elements the part that begins at `starts` and has `part` elements. All
// lists have an entry for each dimension.
struct ArrayPart {
  std::span<const std::int64_t> sizes;
  std::span<const std::int64_t> part;
  std::span<const std::int64_t> starts;
  ArrayOrder order = ArrayOrder::kC;
};
// kConfigError where a part has no element, or leaves the array.
Result<TypeLayout> subarray(const ArrayPart& array, const TypeLayout& t);

enum class ArraySpread : std::uint8_t { kNone, kBlock, kCyclic };
inline constexpr std::int64_t kDefaultBlock = -1;

// Of an array that is spread over a grid of processes, what process `rank` has. Ranks are in the
// grid's row-major order, whatever the array's is.
struct SpreadArray {
  std::int64_t rank = 0;
  std::span<const std::int64_t> sizes;
  std::span<const ArraySpread> spread;
  std::span<const std::int64_t> blocks;  // lengths, or kDefaultBlock
  std::span<const std::int64_t> grid;
  ArrayOrder order = ArrayOrder::kC;
};
Result<TypeLayout> darray(const SpreadArray& array, const TypeLayout& t);

// An array with gaps, of any number of dimensions at any strides, from its first element on: its
// extent is one element's, since strides are the caller's.
Result<TypeLayout> gapped_array(const ArrayShape& shape);

}  // namespace holdfast::datatype
