#include "comm/reduce/kernels.h"

#include "comm/reduce/levels.h"

namespace holdfast::comm {
namespace {

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"); }

// g++ 12 turns a vectorised complex product into fused multiply-adds wherever the level has them,
// whatever -ffp-contract says; they round once where the reference rounds twice.
bool is_complex_product(DType dtype, ReduceOp op) {
  return op == ReduceOp::kProduct && (dtype == DType::kC64 || dtype == DType::kC128);
}
#endif

}  // namespace

ReduceKernel reduce_kernel(DType dtype, ReduceOp op) {
#if defined(__x86_64__)
  if (has_avx512() && !is_complex_product(dtype, op)) return reduce_kernel_avx512(dtype, op);
  if (has_avx2()) return reduce_kernel_avx2(dtype, op);
#endif
  return reduce_kernel_baseline(dtype, op);
}

DivideKernel divide_kernel(DType dtype) {
#if defined(__x86_64__)
  if (has_avx512()) return divide_kernel_avx512(dtype);
  if (has_avx2()) return divide_kernel_avx2(dtype);
#endif
  return divide_kernel_baseline(dtype);
}

}  // namespace holdfast::comm
