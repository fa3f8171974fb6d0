#include "comm/reduce/kernels.h"

#include "base/check.h"
#include "comm/reduce/levels.h"
#include "comm/reduce/unusual.h"

namespace holdfast::comm {
namespace {

#if defined(__x86_64__)
// g++ 12 turns a vectorised complex product into fused multiply-adds wherever the level has them,
// whatever -ffp-contract says; they round once where the reference rounds twice.
bool is_complex_product(DType dtype, ReduceOp op) {
  return op == ReduceOp::kProduct && (dtype == DType::kC64 || dtype == DType::kC128);
}
#endif

}  // namespace

ReduceKernel reduce_kernel(DType dtype, ReduceOp op, CpuLevel level) {
  if (is_unusual(dtype)) return unusual_reduce_kernel(dtype, op);
  switch (level) {
    case CpuLevel::kReference: return reference_reduce_kernel(dtype, op);
    case CpuLevel::kBaseline: return reduce_kernel_baseline(dtype, op);
#if defined(__x86_64__)
    case CpuLevel::kAvx2: return reduce_kernel_avx2(dtype, op);
    case CpuLevel::kAvx512:
      return is_complex_product(dtype, op) ? reduce_kernel_avx2(dtype, op)
                                           : reduce_kernel_avx512(dtype, op);
#elif defined(__aarch64__)
    case CpuLevel::kNeon: return reduce_kernel_neon(dtype, op);
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

DivideKernel divide_kernel(DType dtype, CpuLevel level) {
  if (is_unusual(dtype)) return unusual_divide_kernel(dtype);
  switch (level) {
    case CpuLevel::kReference: return reference_divide_kernel(dtype);
    case CpuLevel::kBaseline: return divide_kernel_baseline(dtype);
#if defined(__x86_64__)
    case CpuLevel::kAvx2: return divide_kernel_avx2(dtype);
    case CpuLevel::kAvx512: return divide_kernel_avx512(dtype);
#elif defined(__aarch64__)
    case CpuLevel::kNeon: return divide_kernel_neon(dtype);
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

ReduceKernel reduce_kernel(DType dtype, ReduceOp op) {
  return reduce_kernel(dtype, op, best_cpu_level());
}

DivideKernel divide_kernel(DType dtype) { return divide_kernel(dtype, best_cpu_level()); }

}  // namespace holdfast::comm
