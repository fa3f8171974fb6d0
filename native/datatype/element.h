// The basic elements that datatypes are made of: MPI's, by the kind of number that they are in C
// here. Names of one kind (MPI_INT, MPI_INT32_T) are one element, but for long, whose portable form
// is another.
#pragma once

#include <cstdint>

#include "datatype/layout.h"

namespace holdfast::datatype {

enum class ElementKind : std::uint8_t {
  kByte,  // MPI_BYTE and MPI_PACKED: bytes that nobody converts
  kChar,
  kWchar,
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kLong,  // as wide as C has it here, but 4 bytes in the portable form
  kUnsignedLong,
  kFloat,
  kDouble,
  kLongDouble,
  kComplexFloat,
  kComplexDouble,
  kComplexLongDouble,
};
inline constexpr int kElementKindCount = 20;

// Types of a value and an index, for MAXLOC and MINLOC: structures of two elements.
enum class PairKind : std::uint8_t {
  kFloatInt,
  kDoubleInt,
  kLongInt,
  kTwoInt,
  kShortInt,
  kLongDoubleInt,
};
inline constexpr int kPairKindCount = 6;

struct ElementSize {
  std::uint32_t bytes;
  std::uint32_t alignment;
  std::uint32_t external32;  // bytes in MPI's portable form (MPI-4.1, 14.5.2)
};

ElementSize element_size(ElementKind kind);
inline std::uint64_t element_bytes(ElementKind kind) { return element_size(kind).bytes; }
ElementKind pair_value(PairKind kind);  // the index is kInt32

TypeLayout element_layout(ElementKind kind);
TypeLayout pair_layout(PairKind kind);

}  // namespace holdfast::datatype
