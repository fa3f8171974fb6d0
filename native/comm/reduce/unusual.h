// Unusual element types: long double, complex numbers of two, and pairs of a value and an index. No
// instruction level has vectors for them, so there is one set of scalar kernels for all levels, and
// none on devices. Only kernels.cpp and reference.cpp use them; other code uses kernels.h.
#pragma once

#include "comm/reduce/kernels.h"

namespace holdfast::comm {

constexpr bool is_unusual(DType dtype) { return dtype >= DType::kLongDouble; }

// As reduce_kernel() and divide_kernel().
ReduceKernel unusual_reduce_kernel(DType dtype, ReduceOp op);
DivideKernel unusual_divide_kernel(DType dtype);

}  // namespace holdfast::comm
