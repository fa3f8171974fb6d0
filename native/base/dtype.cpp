#include "base/dtype.h"

#include <array>

namespace holdfast {
namespace {

struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
  enum class Kind : std::uint8_t { kBool, kInteger, kFloat, kComplex } kind;
};

using Kind = DTypeRow::Kind;

constexpr std::array<DTypeRow, kDTypeCount> kRows{{
    {"bool", 1, Kind::kBool},
    {"u8", 1, Kind::kInteger},
    {"i8", 1, Kind::kInteger},
    {"u16", 2, Kind::kInteger},
    {"i16", 2, Kind::kInteger},
    {"u32", 4, Kind::kInteger},
    {"i32", 4, Kind::kInteger},
    {"u64", 8, Kind::kInteger},
    {"i64", 8, Kind::kInteger},
    {"f16", 2, Kind::kFloat},
    {"bf16", 2, Kind::kFloat},
    {"f8_e4m3", 1, Kind::kFloat},
    {"f8_e5m2", 1, Kind::kFloat},
    {"f32", 4, Kind::kFloat},
    {"f64", 8, Kind::kFloat},
    {"c64", 8, Kind::kComplex},
    {"c128", 16, Kind::kComplex},
}};

constexpr std::array<std::string_view, kReduceOpCount> kOps{"sum", "avg",  "product", "min",
                                                            "max", "band", "bor",     "bxor"};

const DTypeRow& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t dtype_bytes(DType dtype) { return row(dtype).bytes; }
std::string_view dtype_name(DType dtype) { return row(dtype).name; }
std::string_view reduce_op_name(ReduceOp op) { return kOps[static_cast<std::size_t>(op)]; }

bool reduce_defined(DType dtype, ReduceOp op) {
  const Kind kind = row(dtype).kind;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProduct: return true;
    case ReduceOp::kAvg: return kind == Kind::kFloat || kind == Kind::kComplex;
    case ReduceOp::kMin:
    case ReduceOp::kMax: return kind != Kind::kComplex;
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor: return kind == Kind::kBool || kind == Kind::kInteger;
  }
  return false;
}

}  // namespace holdfast
