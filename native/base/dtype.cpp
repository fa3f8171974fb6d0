#include "base/dtype.h"

#include <array>

namespace holdfast {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
  enum class DTypeKind : std::uint8_t { kBool, kInteger, kFloat, kComplex, kPair } kind;
};

using DTypeKind = DTypeRow::DTypeKind;

constexpr std::array<DTypeRow, kDTypeCount> kRows{{
    {"bool", 1, DTypeKind::kBool},
    {"u8", 1, DTypeKind::kInteger},
    {"i8", 1, DTypeKind::kInteger},
    {"u16", 2, DTypeKind::kInteger},
    {"i16", 2, DTypeKind::kInteger},
    {"u32", 4, DTypeKind::kInteger},
    {"i32", 4, DTypeKind::kInteger},
    {"u64", 8, DTypeKind::kInteger},
    {"i64", 8, DTypeKind::kInteger},
    {"f16", 2, DTypeKind::kFloat},
    {"bf16", 2, DTypeKind::kFloat},
    {"f8_e4m3", 1, DTypeKind::kFloat},
    {"f8_e5m2", 1, DTypeKind::kFloat},
    {"f32", 4, DTypeKind::kFloat},
    {"f64", 8, DTypeKind::kFloat},
    {"c64", 8, DTypeKind::kComplex},
    {"c128", 16, DTypeKind::kComplex},
    {"long_double", sizeof(long double), DTypeKind::kFloat},
    {"long_complex", 2 * sizeof(long double), DTypeKind::kComplex},
    {"f32_i32", sizeof(IndexedValue<float>), DTypeKind::kPair},
    {"f64_i32", sizeof(IndexedValue<double>), DTypeKind::kPair},
    {"i64_i32", sizeof(IndexedValue<std::int64_t>), DTypeKind::kPair},
    {"i32_i32", sizeof(IndexedValue<std::int32_t>), DTypeKind::kPair},
    {"i16_i32", sizeof(IndexedValue<std::int16_t>), DTypeKind::kPair},
    {"long_double_i32", sizeof(IndexedValue<long double>), DTypeKind::kPair},
}};

constexpr std::array<std::string_view, kReduceOpCount> kOps{
    "sum",  "avg",  "product", "min",  "max",     "band",    "bor",
    "bxor", "land", "lor",     "lxor", "max_loc", "min_loc", "user"};

const DTypeRow& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t dtype_bytes(DType dtype) { return row(dtype).bytes; }
std::string_view dtype_name(DType dtype) { return row(dtype).name; }
std::string_view reduce_op_name(ReduceOp op) { return kOps[static_cast<std::size_t>(op)]; }

bool reduce_defined(DType dtype, ReduceOp op) {
  const DTypeKind kind = row(dtype).kind;
  switch (op) {
    case ReduceOp::kMaxLoc:
    case ReduceOp::kMinLoc: return kind == DTypeKind::kPair;
    case ReduceOp::kSum:
    case ReduceOp::kProduct: return kind != DTypeKind::kPair;
    case ReduceOp::kAvg: return kind != DTypeKind::kBool && kind != DTypeKind::kPair;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
    case ReduceOp::kLand:
    case ReduceOp::kLor:
    case ReduceOp::kLxor: return kind != DTypeKind::kComplex && kind != DTypeKind::kPair;
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor: return kind == DTypeKind::kBool || kind == DTypeKind::kInteger;
    case ReduceOp::kUser: return false;
  }
  return false;
}

bool order_shows(DType dtype, ReduceOp op) {
  if (op == ReduceOp::kUser) return true;
  const DTypeKind kind = row(dtype).kind;
  const bool logical = op == ReduceOp::kLand || op == ReduceOp::kLor || op == ReduceOp::kLxor;
  return kind != DTypeKind::kBool && kind != DTypeKind::kInteger && !logical;
}

}  // namespace holdfast
