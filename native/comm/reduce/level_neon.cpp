// The loops at the neon level; its compiler flags are in cmake/simd.cmake.
#include "comm/reduce/levels.h"
#include "comm/reduce/loops.h"

#if defined(__aarch64__)
namespace holdfast::comm {

ReduceKernel reduce_kernel_neon(DType dtype, ReduceOp op) { return select_reduce(dtype, op); }
DivideKernel divide_kernel_neon(DType dtype) { return select_divide(dtype); }

}  // namespace holdfast::comm
#endif
