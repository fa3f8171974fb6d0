#include "base/dtype.h"

#include <array>

namespace holdfast {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
  enum class DTypeKind : std::uint8_t { kBool, kInteger, kFloat, kComplex } kind;
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
}};

constexpr std::array<std::string_view, kReduceOpCount> kOps{"sum", "avg",  "product", "min",
                                                            "max", "band", "bor",     "bxor"};

const DTypeRow& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t dtype_bytes(DType dtype) { return row(dtype).bytes; }
std::string_view dtype_name(DType dtype) { return row(dtype).name; }
std::string_view reduce_op_name(ReduceOp op) { return kOps[static_cast<std::size_t>(op)]; }

bool reduce_defined(DType dtype, ReduceOp op) {
  const DTypeKind kind = row(dtype).kind;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct: return true;
    case ReduceOp::kAvg: return kind != DTypeKind::kBool;
    case ReduceOp::kMin:
    case ReduceOp::kMax: return kind != DTypeKind::kComplex;
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor: return kind == DTypeKind::kBool || kind == DTypeKind::kInteger;
  }
  return false;
}

}  // namespace holdfast
