// The scalar references: the same loops, compiled without vectorisation (cmake/simd.cmake).
#include "comm/reduce/loops.h"

namespace holdfast::comm {

ReduceKernel reference_reduce_kernel(DType dtype, ReduceOp op) { return select_reduce(dtype, op); }
DivideKernel reference_divide_kernel(DType dtype) { return select_divide(dtype); }

}  // namespace holdfast::comm
