// Levels: declares the reduction loops of each instruction level. Only kernels.cpp uses them; other
// code uses kernels.h.
#pragma once

#include "comm/reduce/kernels.h"

namespace holdfast::comm {

ReduceKernel reduce_kernel_baseline(DType dtype, ReduceOp op);
DivideKernel divide_kernel_baseline(DType dtype);
#if defined(__x86_64__)
ReduceKernel reduce_kernel_avx2(DType dtype, ReduceOp op);
DivideKernel divide_kernel_avx2(DType dtype);
ReduceKernel reduce_kernel_avx512(DType dtype, ReduceOp op);
DivideKernel divide_kernel_avx512(DType dtype);
#elif defined(__aarch64__)
ReduceKernel reduce_kernel_neon(DType dtype, ReduceOp op);
DivideKernel divide_kernel_neon(DType dtype);
#endif

}  // namespace holdfast::comm
