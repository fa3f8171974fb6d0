// The types that MPI predefines: what each is in memory, in external32, and which reductions it
// has. Fortran's are those of a compiler whose default INTEGER has four bytes.
#pragma once

#include <cstdint>
#include <span>

namespace holdfast::mpi {

enum class ElementKind : std::uint8_t {
  kByte,
  kPacked,
  kCharacter,
  kWideCharacter,
  kSigned,
  kUnsigned,
  kAddress,  // MPI_AINT and its kin: integers of every language
  kFloat,
  kBrainFloat,
  kComplex,
  kLogical,  // of Fortran: four bytes and their kin
  kBool,     // one byte, 0 or 1
};

struct BasicType {
  std::int32_t number;  // predefined.h
  const char* name;
  ElementKind kind;
  bool fortran;  // its integers take no logical operations
  std::uint8_t bytes;
  std::uint8_t alignment;
  std::uint8_t external;  // bytes in external32 (MPI-4.1, 14.5.2)
};

// A value and an index, as C lays out a struct of both (MPI-4.1, 6.9.4).
struct PairType {
  std::int32_t number;
  const char* name;
  std::int32_t value;  // numbers of basic types
  std::int32_t index;
};

std::span<const BasicType> basic_types();
std::span<const PairType> pair_types();
// Null: there is none of this number.
const BasicType* basic_type(std::int32_t number);
const PairType* pair_type(std::int32_t number);

}  // namespace holdfast::mpi
