// A typemap as the standard writes it: each basic element with its place, one by one. It shares
// nothing with the code under test but the rows of MPI's types, and is small enough to believe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "mpi/types/basic_types.h"

namespace holdfast::mpi {

struct PlacedElement {
  std::int64_t place;
  const BasicType* type;
};

struct Typemap {
  std::vector<PlacedElement> elements;
  std::int64_t lb = 0;
  std::int64_t ub = 0;
  // What resized() set stays with what is built of it (MPI-4.1, 5.1.7).
  bool has_marks = false;

  std::int64_t extent() const { return ub - lb; }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const PlacedElement& element : elements) sum += element.type->bytes;
    return sum;
  }
};

inline Typemap typemap_of(const BasicType& type) { return {{{0, &type}}, 0, type.bytes, false}; }

struct TypemapBlock {
  std::int64_t length;
  std::int64_t place;
  const Typemap* type;
};

// Bounds that nobody has marked: those of the elements, and the extent rounded up to the strictest
// alignment. `end`: of the parts, as their own extents have it.
inline void bound_by_elements(Typemap& map, std::int64_t end) {
  std::int64_t alignment = 1;
  for (std::size_t i = 0; i < map.elements.size(); ++i) {
    const auto [place, type] = map.elements[i];
    map.lb = i == 0 ? place : std::min(map.lb, place);
    map.ub = i == 0 ? place + type->bytes : std::max(map.ub, place + type->bytes);
    alignment = std::max<std::int64_t>(alignment, type->alignment);
  }
  if (!map.elements.empty()) map.ub = std::max(map.ub, end);
  map.ub = map.lb + (map.extent() + alignment - 1) / alignment * alignment;
}

// The general constructor: all others follow from it.
inline Typemap typemap_of_struct(const std::vector<TypemapBlock>& blocks) {
  Typemap made;
  std::int64_t end = INT64_MIN;
  for (const TypemapBlock& block : blocks) {
    for (std::int64_t i = 0; i < block.length; ++i) {
      const std::int64_t at = block.place + i * block.type->extent();
      if (!block.type->elements.empty()) end = std::max(end, at + block.type->ub);
      for (const PlacedElement& e : block.type->elements) {
        made.elements.push_back({at + e.place, e.type});
      }
      if (!block.type->has_marks) continue;
      const std::int64_t lb = at + block.type->lb;
      const std::int64_t ub = at + block.type->ub;
      made.lb = made.has_marks ? std::min(made.lb, lb) : lb;
      made.ub = made.has_marks ? std::max(made.ub, ub) : ub;
      made.has_marks = true;
    }
  }
  if (!made.has_marks) bound_by_elements(made, end);
  return made;
}

inline Typemap typemap_of_blocks(const std::vector<std::int64_t>& lengths,
                                 const std::vector<std::int64_t>& places, const Typemap& type) {
  std::vector<TypemapBlock> blocks;
  for (std::size_t i = 0; i < lengths.size(); ++i) blocks.push_back({lengths[i], places[i], &type});
  return typemap_of_struct(blocks);
}

inline Typemap typemap_resized(Typemap type, std::int64_t lb, std::int64_t extent) {
  type.lb = lb;
  type.ub = lb + extent;
  type.has_marks = true;
  return type;
}

// The packed form of `count` of them.
inline std::vector<std::byte> packed_by_hand(const Typemap& type, const std::byte* base,
                                             std::int64_t count) {
  std::vector<std::byte> packed;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const PlacedElement& element : type.elements) {
      const std::byte* at = base + i * type.extent() + element.place;
      packed.insert(packed.end(), at, at + element.type->bytes);
    }
  }
  return packed;
}

// Where the bytes of a packed form go.
inline void unpack_by_hand(const Typemap& type, const std::vector<std::byte>& packed,
                           std::byte* base, std::int64_t count) {
  std::size_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const PlacedElement& element : type.elements) {
      std::memcpy(base + i * type.extent() + element.place, packed.data() + at,
                  element.type->bytes);
      at += element.type->bytes;
    }
  }
}

}  // namespace holdfast::mpi
