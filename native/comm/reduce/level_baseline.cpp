// The loops at the baseline level; its compiler flags are in cmake/simd.cmake.
#include "comm/reduce/levels.h"
#include "comm/reduce/loops.h"

namespace holdfast::comm {

ReduceKernel reduce_kernel_baseline(DType dtype, ReduceOp op) { return select_reduce(dtype, op); }
DivideKernel divide_kernel_baseline(DType dtype) { return select_divide(dtype); }

}  // namespace holdfast::comm
