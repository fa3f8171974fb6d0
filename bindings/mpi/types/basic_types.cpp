#include "mpi/types/basic_types.h"

#include <algorithm>
#include <cstddef>

#include "mpi/core/predefined.h"

namespace holdfast::mpi {

namespace {

using K = ElementKind;

template <class T>
constexpr BasicType row(std::int32_t number, const char* name, K kind, std::uint8_t external) {
  return {number, name, kind, false, sizeof(T), alignof(T), external};
}

template <class T>
constexpr BasicType complex_row(std::int32_t number, const char* name, std::uint8_t external) {
  return {number, name, K::kComplex, false, 2 * sizeof(T), alignof(T), external};
}

// Of Fortran. No more alignment than C gives to the parts.
constexpr BasicType fortran(std::int32_t number, const char* name, K kind, std::uint8_t bytes,
                            std::uint8_t alignment) {
  return {number, name, kind, true, bytes, alignment, bytes};
}

constexpr std::uint8_t kLongDouble = 16;  // in external32, whatever the machine has

// In the order of their numbers.
constexpr BasicType kBasic[] = {
    row<std::intptr_t>(kTypeAint, "MPI_AINT", K::kAddress, 8),
    row<std::int64_t>(kTypeCount, "MPI_COUNT", K::kAddress, 8),
    row<std::int64_t>(kTypeOffset, "MPI_OFFSET", K::kAddress, 8),
    row<char>(kTypePacked, "MPI_PACKED", K::kPacked, 1),
    row<short>(kTypeShort, "MPI_SHORT", K::kSigned, 2),
    row<int>(kTypeInt, "MPI_INT", K::kSigned, 4),
    row<long>(kTypeLong, "MPI_LONG", K::kSigned, 4),
    row<long long>(kTypeLongLong, "MPI_LONG_LONG", K::kSigned, 8),
    row<unsigned short>(kTypeUnsignedShort, "MPI_UNSIGNED_SHORT", K::kUnsigned, 2),
    row<unsigned>(kTypeUnsigned, "MPI_UNSIGNED", K::kUnsigned, 4),
    row<unsigned long>(kTypeUnsignedLong, "MPI_UNSIGNED_LONG", K::kUnsigned, 4),
    row<unsigned long long>(kTypeUnsignedLongLong, "MPI_UNSIGNED_LONG_LONG", K::kUnsigned, 8),
    row<float>(kTypeFloat, "MPI_FLOAT", K::kFloat, 4),
    complex_row<float>(kTypeCFloatComplex, "MPI_C_FLOAT_COMPLEX", 8),
    complex_row<float>(kTypeCxxFloatComplex, "MPI_CXX_FLOAT_COMPLEX", 8),
    row<double>(kTypeDouble, "MPI_DOUBLE", K::kFloat, 8),
    complex_row<double>(kTypeCDoubleComplex, "MPI_C_DOUBLE_COMPLEX", 16),
    complex_row<double>(kTypeCxxDoubleComplex, "MPI_CXX_DOUBLE_COMPLEX", 16),
    fortran(kTypeLogical, "MPI_LOGICAL", K::kLogical, 4, 4),
    fortran(kTypeInteger, "MPI_INTEGER", K::kSigned, 4, 4),
    fortran(kTypeReal, "MPI_REAL", K::kFloat, 4, 4),
    fortran(kTypeComplex, "MPI_COMPLEX", K::kComplex, 8, 4),
    fortran(kTypeDoublePrecision, "MPI_DOUBLE_PRECISION", K::kFloat, 8, 8),
    fortran(kTypeDoubleComplex, "MPI_DOUBLE_COMPLEX", K::kComplex, 16, 8),
    fortran(kTypeCharacter, "MPI_CHARACTER", K::kCharacter, 1, 1),
    row<long double>(kTypeLongDouble, "MPI_LONG_DOUBLE", K::kFloat, kLongDouble),
    complex_row<long double>(kTypeCLongDoubleComplex, "MPI_C_LONG_DOUBLE_COMPLEX", 32),
    complex_row<long double>(kTypeCxxLongDoubleComplex, "MPI_CXX_LONG_DOUBLE_COMPLEX", 32),
    row<bool>(kTypeCBool, "MPI_C_BOOL", K::kBool, 1),
    row<bool>(kTypeCxxBool, "MPI_CXX_BOOL", K::kBool, 1),
    row<wchar_t>(kTypeWchar, "MPI_WCHAR", K::kWideCharacter, 2),
    row<std::int8_t>(kTypeInt8T, "MPI_INT8_T", K::kSigned, 1),
    row<std::uint8_t>(kTypeUint8T, "MPI_UINT8_T", K::kUnsigned, 1),
    row<char>(kTypeChar, "MPI_CHAR", K::kCharacter, 1),
    row<signed char>(kTypeSignedChar, "MPI_SIGNED_CHAR", K::kSigned, 1),
    row<unsigned char>(kTypeUnsignedChar, "MPI_UNSIGNED_CHAR", K::kUnsigned, 1),
    row<std::byte>(kTypeByte, "MPI_BYTE", K::kByte, 1),
    row<std::int16_t>(kTypeInt16T, "MPI_INT16_T", K::kSigned, 2),
    row<std::uint16_t>(kTypeUint16T, "MPI_UINT16_T", K::kUnsigned, 2),
    row<std::int32_t>(kTypeInt32T, "MPI_INT32_T", K::kSigned, 4),
    row<std::uint32_t>(kTypeUint32T, "MPI_UINT32_T", K::kUnsigned, 4),
    row<std::int64_t>(kTypeInt64T, "MPI_INT64_T", K::kSigned, 8),
    row<std::uint64_t>(kTypeUint64T, "MPI_UINT64_T", K::kUnsigned, 8),
    fortran(kTypeLogical1, "MPI_LOGICAL1", K::kLogical, 1, 1),
    fortran(kTypeInteger1, "MPI_INTEGER1", K::kSigned, 1, 1),
    fortran(kTypeLogical2, "MPI_LOGICAL2", K::kLogical, 2, 2),
    fortran(kTypeInteger2, "MPI_INTEGER2", K::kSigned, 2, 2),
    fortran(kTypeReal2, "MPI_REAL2", K::kFloat, 2, 2),
    fortran(kTypeLogical4, "MPI_LOGICAL4", K::kLogical, 4, 4),
    fortran(kTypeInteger4, "MPI_INTEGER4", K::kSigned, 4, 4),
    fortran(kTypeReal4, "MPI_REAL4", K::kFloat, 4, 4),
    fortran(kTypeComplex4, "MPI_COMPLEX4", K::kComplex, 4, 2),
    fortran(kTypeLogical8, "MPI_LOGICAL8", K::kLogical, 8, 8),
    fortran(kTypeInteger8, "MPI_INTEGER8", K::kSigned, 8, 8),
    fortran(kTypeReal8, "MPI_REAL8", K::kFloat, 8, 8),
    fortran(kTypeComplex8, "MPI_COMPLEX8", K::kComplex, 8, 4),
    fortran(kTypeComplex16, "MPI_COMPLEX16", K::kComplex, 16, 8),
    {kTypeCFloat16, "MPIX_C_FLOAT16", K::kFloat, false, 2, 2, 2},
    {kTypeBfloat16, "MPIX_BFLOAT16", K::kBrainFloat, false, 2, 2, 2},
};

constexpr PairType kPairs[] = {
    {kTypeFloatInt, "MPI_FLOAT_INT", kTypeFloat, kTypeInt},
    {kTypeDoubleInt, "MPI_DOUBLE_INT", kTypeDouble, kTypeInt},
    {kTypeLongInt, "MPI_LONG_INT", kTypeLong, kTypeInt},
    {kTypeTwoInt, "MPI_2INT", kTypeInt, kTypeInt},
    {kTypeShortInt, "MPI_SHORT_INT", kTypeShort, kTypeInt},
    {kTypeLongDoubleInt, "MPI_LONG_DOUBLE_INT", kTypeLongDouble, kTypeInt},
    {kTypeTwoReal, "MPI_2REAL", kTypeReal, kTypeReal},
    {kTypeTwoDoublePrecision, "MPI_2DOUBLE_PRECISION", kTypeDoublePrecision, kTypeDoublePrecision},
    {kTypeTwoInteger, "MPI_2INTEGER", kTypeInteger, kTypeInteger},
};

constexpr auto kByNumber = [](const BasicType& a, const BasicType& b) {
  return a.number < b.number;
};
static_assert(std::is_sorted(std::begin(kBasic), std::end(kBasic), kByNumber));

}  // namespace

std::span<const BasicType> basic_types() { return kBasic; }
std::span<const PairType> pair_types() { return kPairs; }

const BasicType* basic_type(std::int32_t number) {
  const auto* at = std::lower_bound(std::begin(kBasic), std::end(kBasic), number,
                                    [](const BasicType& row, int n) { return row.number < n; });
  return at != std::end(kBasic) && at->number == number ? at : nullptr;
}

const PairType* pair_type(std::int32_t number) {
  const auto* at = std::find_if(std::begin(kPairs), std::end(kPairs),
                                [&](const PairType& row) { return row.number == number; });
  return at != std::end(kPairs) ? at : nullptr;
}

}  // namespace holdfast::mpi
