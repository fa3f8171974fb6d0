// Types of Fortran by precision and range: MPI-4.1, 19.1.9.
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/core/info.h"
#include "mpi/core/predefined.h"
#include "mpi/core/process.h"
#include "mpi/types/basic_types.h"

namespace holdfast::mpi {

namespace {

// What Fortran's compilers have: decimal digits, and the decimal exponent's range.
struct RealRow {
  int precision;
  int range;
  std::int32_t real;
  std::int32_t complex;
};
constexpr RealRow kReals[] = {{6, 37, kTypeReal4, kTypeComplex8},
                              {15, 307, kTypeReal8, kTypeComplex16},
                              {18, 4931, kTypeLongDouble, kTypeCLongDoubleComplex}};

struct IntegerRow {
  int range;
  std::int32_t number;
};
constexpr IntegerRow kIntegers[] = {
    {2, kTypeInteger1}, {4, kTypeInteger2}, {9, kTypeInteger4}, {18, kTypeInteger8}};

// What MPI_Abi_get_fortran_info tells (MPI-5.0, 20.4): sizes of the default kinds, and whether
// types of a size are there.
struct NamedType {
  const char* name;
  std::int32_t number;
};
constexpr NamedType kDefaultKinds[] = {{"logical", kTypeLogical},
                                       {"integer", kTypeInteger},
                                       {"real", kTypeReal},
                                       {"double_precision", kTypeDoublePrecision}};
constexpr NamedType kSizedKinds[] = {{"logical1", kTypeLogical1},
                                     {"logical2", kTypeLogical2},
                                     {"logical4", kTypeLogical4},
                                     {"logical8", kTypeLogical8},
                                     {"logical16", kTypeLogical16},
                                     {"integer1", kTypeInteger1},
                                     {"integer2", kTypeInteger2},
                                     {"integer4", kTypeInteger4},
                                     {"integer8", kTypeInteger8},
                                     {"integer16", kTypeInteger16},
                                     {"real2", kTypeReal2},
                                     {"real4", kTypeReal4},
                                     {"real8", kTypeReal8},
                                     {"real16", kTypeReal16},
                                     {"complex4", kTypeComplex4},
                                     {"complex8", kTypeComplex8},
                                     {"complex16", kTypeComplex16},
                                     {"complex32", kTypeComplex32},
                                     {"double_complex", kTypeDoubleComplex}};

int give(Call& call, int combiner, int p, int r, std::int32_t number, Datatype*& newtype) {
  Datatype* found = process().fortran_types.find(combiner, p, r, *basic_type(number));
  if (found != nullptr) {
    newtype = found;
    return kSuccess;
  }
  return call.fail(kErrNoMem, "there are " + std::to_string(FortranTypes::kMostTypes) +
                                  " such types already, and a program can have no more");
}

// MPI_UNDEFINED, which is negative, leaves the choice to the other one.
int find_real(Call& call, int p, int r, const RealRow** row) {
  if (p == kUndefined && r == kUndefined) {
    return call.fail(kErrArg, "p and r are MPI_UNDEFINED, accepted is one of them");
  }
  for (const RealRow& each : kReals) {
    *row = &each;
    if (p <= each.precision && r <= each.range) return kSuccess;
  }
  return call.fail(kErrArg, "p is " + std::to_string(p) + " and r is " + std::to_string(r) +
                                ", accepted are a p up to 18 and an r up to 4931");
}

}  // namespace

namespace body {

int Type_create_f90_integer(Call& call, int r, Datatype*& newtype) {
  for (const IntegerRow& row : kIntegers) {
    if (r <= row.range) return give(call, kCombinerF90Integer, 0, r, row.number, newtype);
  }
  return call.fail(kErrArg, "r is " + std::to_string(r) + ", accepted are numbers up to 18");
}

int Type_create_f90_real(Call& call, int p, int r, Datatype*& newtype) {
  const RealRow* row = nullptr;
  const int code = find_real(call, p, r, &row);
  return code != kSuccess ? code : give(call, kCombinerF90Real, p, r, row->real, newtype);
}

int Type_create_f90_complex(Call& call, int p, int r, Datatype*& newtype) {
  const RealRow* row = nullptr;
  const int code = find_real(call, p, r, &row);
  return code != kSuccess ? code : give(call, kCombinerF90Complex, p, r, row->complex, newtype);
}

int Abi_get_fortran_info(Call& call, Info*& info) {
  // Headers of other ABIs name some of these types and not others, and each its own: nothing that
  // the library could say would be right for its program, and MPI lets it say nothing.
  info = nullptr;
  if (call.abi().abi_version < 0) return kSuccess;
  std::vector<InfoEntry> entries;
  for (const NamedType& kind : kDefaultKinds) {
    entries.push_back({"mpi_" + std::string(kind.name) + "_size",
                       std::to_string(basic_type(kind.number)->bytes)});
  }
  for (const NamedType& kind : kSizedKinds) {
    entries.push_back({"mpi_" + std::string(kind.name) + "_supported",
                       basic_type(kind.number) != nullptr ? "true" : "false"});
  }
  return give_made(call, process().registry.make<Info>(std::move(entries)), "infos", info);
}

}  // namespace body
}  // namespace holdfast::mpi
