// TypeMaker: what the constructors of datatypes share: it notes a constructor's arguments as
// MPI_Type_get_contents will give them, and makes the type of a layout and its elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "mpi/core/call.h"
#include "mpi/types/datatype.h"

namespace holdfast::mpi {

class TypeMaker {
 public:
  TypeMaker(Call& call, int combiner) : call_(call) {
    contents_.combiner = combiner;
    contents_.wide = call.is_wide();
  }

  // Arguments in their order: numbers that are MPI_Count in the twin, or MPI_Aint and MPI_Count
  // there, or `int` in both.
  void count(std::int64_t value);
  void counts(const std::vector<std::int64_t>& values);
  void displacement(std::int64_t value);
  void displacements(const std::vector<std::int64_t>& values);
  void integer(int value) { contents_.integers.push_back(value); }
  void type(Datatype* type) { contents_.types.push_back(type); }

  int finish(Result<datatype::TypeLayout> layout, ElementList elements, Datatype*& newtype);

 private:
  Call& call_;
  Contents contents_;
};

// The first `n` numbers of an array, which null has none of: the call then fails.
int take(Call& call, const char* argument, const IntArray& array, std::int64_t n,
         std::vector<std::int64_t>& values);
int refuse_negative(Call& call, int code, const std::string& argument, std::int64_t value);
// As take(); none may be negative.
int take_lengths(Call& call, const char* argument, const IntArray& array, std::int64_t n,
                 std::vector<std::int64_t>& values);
// values[i] * unit; the call fails where that leaves 64 bits.
int scale(Call& call, const char* argument, std::int64_t unit, std::vector<std::int64_t>& values);

}  // namespace holdfast::mpi
