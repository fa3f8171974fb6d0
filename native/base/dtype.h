// Element types and reduction operators: their names and sizes. The arithmetic is in comm/reduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast {

enum class DType : std::uint8_t {
  kBool,  // one byte, 0 or 1; any other byte counts as true
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBF16,
  kF8E4M3,  // e4m3fn: no infinity, NaN is 0x7f / 0xff
  kF8E5M2,
  kF32,
  kF64,
  kC64,   // complex of two f32
  kC128,  // complex of two f64
  // C's long double, as the machine has it, and a complex of two.
  kLongDouble,
  kLongComplex,
  // Pairs of a value and an index, laid out as C lays out a struct of both, padding included.
  kF32I32,
  kF64I32,
  kI64I32,  // C's long is an i64 wherever Holdfast runs
  kI32I32,
  kI16I32,
  kLongDoubleI32,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kLongDoubleI32) + 1;  // the last one

// How C lays out a pair: what MPI's pair types are in memory.
template <class T>
struct IndexedValue {
  T value;
  std::int32_t index;
};

enum class ReduceOp : std::uint8_t {
  kSum,
  kAvg,
  kProduct,
  kMin,
  kMax,
  kBand,
  kBor,
  kBxor,
  // Whether both, at least one, or exactly one of the two is not zero; the result is 0 or 1.
  kLand,
  kLor,
  kLxor,
  // Of two pairs the one with the greater, or lesser, value; of equal values the lower index.
  kMaxLoc,
  kMinLoc,
  kUser,  // the caller's (comm/reduce/reducer.h): on no dtype, for it has its own elements
};
inline constexpr int kReduceOpCount = static_cast<int>(ReduceOp::kUser) + 1;  // the last one

std::size_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);      // "f32", "bf16", ...
std::string_view reduce_op_name(ReduceOp op);  // "sum", "avg", ...

// Whether op is defined on dtype: bitwise ops on integers and bool only, min/max and logical ops
// not on complex, avg not on bool; on pairs max_loc and min_loc, and nothing else.
bool reduce_defined(DType dtype, ReduceOp op);
// Whether the bits of a result depend on the order and the grouping of its operands: not so with
// integers, and where only zero or not zero counts.
bool order_shows(DType dtype, ReduceOp op);

}  // namespace holdfast
