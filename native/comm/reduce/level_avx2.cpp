// The loops at the avx2 level; its compiler flags are in cmake/simd.cmake.
#include "comm/reduce/levels.h"
#include "comm/reduce/loops.h"

#if defined(__x86_64__)
namespace holdfast::comm {

ReduceKernel reduce_kernel_avx2(DType dtype, ReduceOp op) { return select_reduce(dtype, op); }
DivideKernel divide_kernel_avx2(DType dtype) { return select_divide(dtype); }

}  // namespace holdfast::comm
#endif
