#include "comm/reduce/device_reduce.h"

#include <string>
#include <string_view>

#include "base/check.h"

namespace holdfast::comm {
namespace {

// How a kernel sees an element of a dtype: one that treats parts of it alike takes them as several
// smaller elements.
struct Seen {
  std::string_view type;
  std::uint32_t elements = 1;
  std::uint32_t bytes = 0;  // of one such element
};

bool is_ordering(ReduceOp op) { return op == ReduceOp::kMin || op == ReduceOp::kMax; }
bool is_of_bits(ReduceOp op) {
  return op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
}

Seen integer(DType dtype, ReduceOp op) {
  const auto bytes = static_cast<std::uint32_t>(dtype_bytes(dtype));
  if (is_of_bits(op)) return {"U8", bytes, 1};
  const bool minds_sign = is_ordering(op) || op == ReduceOp::kAvg;
  const bool is_signed = dtype_name(dtype).front() == 'i' && minds_sign;
  switch (bytes) {
    case 1: return {is_signed ? "I8" : "U8", 1, 1};
    case 2: return {is_signed ? "I16" : "U16", 1, 2};
    case 4: return {is_signed ? "I32" : "U32", 1, 4};
    default: return {is_signed ? "I64" : "U64", 1, 8};
  }
}

Seen seen(DType dtype, ReduceOp op) {
  const bool is_product = op == ReduceOp::kProduct;
  switch (dtype) {
    case DType::kBool: return {"Bool", 1, 1};
    case DType::kF16: return {"F16", 1, 2};
    case DType::kBF16: return {"BF16", 1, 2};
    case DType::kF8E4M3: return {"F8E4M3", 1, 1};
    case DType::kF8E5M2: return {"F8E5M2", 1, 1};
    case DType::kF32: return {"F32", 1, 4};
    case DType::kF64: return {"F64", 1, 8};
    case DType::kC64: return is_product ? Seen{"C64", 1, 8} : Seen{"F32", 2, 4};
    case DType::kC128: return is_product ? Seen{"C128", 1, 16} : Seen{"F64", 2, 8};
    default: return integer(dtype, op);
  }
}

std::string_view word(DType dtype, ReduceOp op) {
  const bool is_bool = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return is_bool ? "Bor" : "Sum";
    case ReduceOp::kProduct: return is_bool ? "Band" : "Product";
    case ReduceOp::kMin: return is_bool ? "Band" : "Min";
    case ReduceOp::kMax: return is_bool ? "Bor" : "Max";
    case ReduceOp::kBand: return "Band";
    case ReduceOp::kBor: return "Bor";
    case ReduceOp::kBxor: return "Bxor";
    default: break;  // not on devices
  }
  return {};
}

}  // namespace

DeviceReduce device_reduce(DType dtype, ReduceOp op) {
  if (!reduces_on_device(dtype, op)) return {};
  const Seen type = seen(dtype, op);
  const std::string name =
      "holdfast_reduce_" + std::string(word(dtype, op)) + "_" + std::string(type.type);
  const device::KernelRow* kernel = device::find_kernel(name);
  CHECK(kernel != nullptr);
  return {kernel, type.elements, 16 / type.bytes};
}

}  // namespace holdfast::comm
