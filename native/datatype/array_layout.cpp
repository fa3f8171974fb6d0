#include "datatype/array_layout.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace holdfast::datatype {
namespace {

Status wrong(const char* call, const char* what, std::size_t dim, std::int64_t value,
             const std::string& accepted) {
  return {Code::kConfigError, std::string(call) + ": " + what + " of dimension " +
                                  std::to_string(dim) + " is " + std::to_string(value) +
                                  ", accepted are " + accepted};
}

// Which elements of a dimension: whole blocks at one distance, and the rest of one more.
struct DimPart {
  std::int64_t start = 0;
  std::int64_t block = 0;
  std::int64_t blocks = 0;
  std::int64_t apart = 0;
  std::int64_t rest = 0;
};

// One dimension more around `inner`, whose elements are `stride` bytes apart here.
Result<TypeLayout> wrapped(const DimPart& dim, std::int64_t stride, const TypeLayout& inner) {
  const auto block = TypeLayout::hvector(dim.block, 1, stride, inner);
  const auto rest = TypeLayout::hvector(dim.rest, 1, stride, inner);
  if (!block.is_ok()) return block.status();
  if (!rest.is_ok()) return rest.status();
  std::array<std::int64_t, 2> at{};
  std::int64_t apart = 0;
  if (__builtin_mul_overflow(dim.apart, stride, &apart) ||
      __builtin_mul_overflow(dim.start, stride, &at[0]) ||
      __builtin_mul_overflow(dim.blocks, apart, &at[1]) ||
      __builtin_add_overflow(at[0], at[1], &at[1])) {
    return Status(Code::kConfigError, "array: a place in the array does not fit into 64 bits");
  }
  const auto whole = TypeLayout::hvector(dim.blocks, 1, apart, block.value());
  if (!whole.is_ok()) return whole.status();
  constexpr std::array<std::int64_t, 2> kOne{1, 1};
  return TypeLayout::structure(kOne, at, std::array{whole.value(), rest.value()});
}

// All dimensions from the fastest on; the extent is the whole array's.
Result<TypeLayout> wrapped_all(std::span<const DimPart> dims, std::span<const std::int64_t> sizes,
                               ArrayOrder order, const TypeLayout& t) {
  TypeLayout out = t;
  std::int64_t stride = t.extent();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t d = order == ArrayOrder::kC ? dims.size() - 1 - i : i;
    const auto more = wrapped(dims[d], stride, out);
    if (!more.is_ok()) return more.status();
    out = more.value();
    if (__builtin_mul_overflow(stride, sizes[d], &stride)) {
      return Status(Code::kConfigError, "array: its extent does not fit into 64 bits");
    }
  }
  return TypeLayout::resized(out, 0, stride);
}

// What process `at` of `many` has of `size` elements.
Result<DimPart> spread_dim(const SpreadArray& array, std::size_t d, std::int64_t at) {
  const std::int64_t size = array.sizes[d];
  const std::int64_t many = array.grid[d];
  std::int64_t block = array.blocks[d];
  if (array.spread[d] == ArraySpread::kNone) {
    if (many != 1) return wrong("darray", "the grid", d, many, "1, as it is not spread");
    return DimPart{.block = size, .blocks = 1};
  }
  const bool cyclic = array.spread[d] == ArraySpread::kCyclic;
  if (block == kDefaultBlock) block = cyclic ? 1 : (size + many - 1) / many;
  // Blocks times processes are not multiplied, as they may leave 64 bits.
  const std::int64_t least = cyclic ? 1 : (size + many - 1) / many;
  if (block < least)
    return wrong("darray", "the block", d, block, std::to_string(least) + " and more");
  block = std::min(block, size);
  if (at > size / block) return DimPart{};
  DimPart part{.start = at * block, .block = block};
  const std::int64_t left = size - part.start;
  part.apart = many > size / block ? size : many * block;
  part.blocks = left < block ? 0 : 1 + (left - block) / part.apart;
  if (!cyclic) part.blocks = std::min<std::int64_t>(part.blocks, 1);
  const std::int64_t after = left - part.blocks * part.apart;
  if ((cyclic || part.blocks == 0) && after > 0) part.rest = std::min(after, block);
  return part;
}

}  // namespace

Result<TypeLayout> subarray(const ArrayPart& array, const TypeLayout& t) {
  std::vector<DimPart> dims;
  for (std::size_t d = 0; d < array.sizes.size(); ++d) {
    const std::int64_t size = array.sizes[d];
    const std::int64_t part = array.part[d];
    const std::int64_t start = array.starts[d];
    if (size < 1) return wrong("subarray", "the size", d, size, "1 and more");
    if (part < 1 || part > size) {
      return wrong("subarray", "the part", d, part, "1 to " + std::to_string(size));
    }
    if (start < 0 || start > size - part) {
      return wrong("subarray", "the start", d, start, "0 to " + std::to_string(size - part));
    }
    dims.push_back({.start = start, .block = part, .blocks = 1});
  }
  return wrapped_all(dims, array.sizes, array.order, t);
}

Result<TypeLayout> darray(const SpreadArray& array, const TypeLayout& t) {
  std::vector<DimPart> dims(array.sizes.size());
  std::int64_t rank = array.rank;
  for (std::size_t d = dims.size(); d-- > 0;) {
    if (array.sizes[d] < 1) return wrong("darray", "the size", d, array.sizes[d], "1 and more");
    if (array.grid[d] < 1) return wrong("darray", "the grid", d, array.grid[d], "1 and more");
    const auto dim = spread_dim(array, d, rank % array.grid[d]);
    if (!dim.is_ok()) return dim.status();
    dims[d] = dim.value();
    rank /= array.grid[d];
  }
  if (array.rank < 0 || rank != 0) {
    return Status(Code::kConfigError, "darray: the rank is " + std::to_string(array.rank) +
                                          ", accepted are those of the grid's processes");
  }
  return wrapped_all(dims, array.sizes, array.order, t);
}

Result<TypeLayout> gapped_array(const ArrayShape& shape) {
  TypeLayout out = TypeLayout::bytes(shape.element_bytes);
  const std::int64_t extent = out.extent();
  for (std::size_t d = shape.count.size(); d-- > 0;) {
    const auto more =
        TypeLayout::hvector(static_cast<std::int64_t>(shape.count[d]), 1, shape.stride[d], out);
    if (!more.is_ok()) return more.status();
    out = more.value();
  }
  return TypeLayout::resized(out, 0, extent);
}

}  // namespace holdfast::datatype
