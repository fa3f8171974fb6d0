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
};
inline constexpr int kDTypeCount = 17;

enum class ReduceOp : std::uint8_t { kSum, kAvg, kProduct, kMin, kMax, kBand, kBor, kBxor };
inline constexpr int kReduceOpCount = 8;

std::size_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);      // "f32", "bf16", ...
std::string_view reduce_op_name(ReduceOp op);  // "sum", "avg", ...

// Whether op is defined on dtype: bitwise ops on integers and bool only, min/max not on complex,
// avg not on bool.
bool reduce_defined(DType dtype, ReduceOp op);

}  // namespace holdfast
