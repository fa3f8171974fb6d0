// The scalar references: the same loops, compiled without vectorisation (cmake/simd.cmake).
#include "comm/reduce/loops.h"
#include "comm/reduce/unusual.h"

namespace holdfast::comm {

ReduceKernel reference_reduce_kernel(DType dtype, ReduceOp op) {
  return is_unusual(dtype) ? unusual_reduce_kernel(dtype, op) : select_reduce(dtype, op);
}
DivideKernel reference_divide_kernel(DType dtype) {
  return is_unusual(dtype) ? unusual_divide_kernel(dtype) : select_divide(dtype);
}

}  // namespace holdfast::comm
