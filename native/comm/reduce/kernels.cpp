#include "comm/reduce/kernels.h"

#include "comm/reduce/levels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace holdfast::comm {
namespace {

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// g++ 12 turns a vectorised complex product into fused multiply-adds wherever the level has them,
// whatever -ffp-contract says; they round once where the reference rounds twice.
bool is_complex_product(DType dtype, ReduceOp op) {
  return op == ReduceOp::kProduct && (dtype == DType::kC64 || dtype == DType::kC128);
}
#endif

}  // namespace

#if defined(__x86_64__)
bool has_avx2() {
  // The instruction is slow, most of all in virtual machines.
  static const bool has = [] {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
           (c & bit_F16C) != 0;
  }();
  return has;
}
#endif

ReduceKernel reduce_kernel(DType dtype, ReduceOp op) {
#if defined(__x86_64__)
  if (has_avx512() && !is_complex_product(dtype, op)) return reduce_kernel_avx512(dtype, op);
  if (has_avx2()) return reduce_kernel_avx2(dtype, op);
#elif defined(__aarch64__)
  return reduce_kernel_neon(dtype, op);  // every such processor has it
#endif
  return reduce_kernel_baseline(dtype, op);
}

DivideKernel divide_kernel(DType dtype) {
#if defined(__x86_64__)
  if (has_avx512()) return divide_kernel_avx512(dtype);
  if (has_avx2()) return divide_kernel_avx2(dtype);
#elif defined(__aarch64__)
  return divide_kernel_neon(dtype);
#endif
  return divide_kernel_baseline(dtype);
}

}  // namespace holdfast::comm
