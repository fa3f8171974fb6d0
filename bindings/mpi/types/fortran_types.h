// FortranTypes: the types that MPI_Type_create_f90_integer and its kin name by precision and range.
// MPI predefines them in a way: they are committed, are never freed, and the same numbers name the
// same type.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <tuple>

#include "mpi/types/datatype.h"

namespace holdfast::mpi {

class FortranTypes {
 public:
  // A program that asks for more pairs of numbers than this asks for each number there is.
  static constexpr std::size_t kMostTypes = 4096;

  // Any thread. `combiner`: one of those of Fortran; `precision` counts for it alone. Null: there
  // are kMostTypes.
  Datatype* find(int combiner, int precision, int range, const BasicType& row);

 private:
  std::mutex mutex_;  // guards types_
  std::map<std::tuple<int, int, int>, Datatype*> types_;
};

}  // namespace holdfast::mpi
