// Reduction kernels: dst[i] = lhs[i] (op) rhs[i]. There is one per (dtype, op), chosen once per
// collective.
//
// 16-bit and 8-bit floats are widened to f32 per element, reduced and rounded to nearest even once;
// NaN in gives NaN out (min and max too). Integers wrap. Bool: sum and max are OR, product and min
// are AND. Logical operators give 0 or 1, and NaN counts as true. dst may be the same memory as lhs
// or rhs, but may not overlap them otherwise. The SIMD kernels give the same bits as the scalar
// reference of the same name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "base/dtype.h"

namespace holdfast::comm {

using ReduceKernel = void (*)(void* dst, const void* lhs, const void* rhs, std::uint64_t count);
// Divides in place: data[i] = data[i] / divisor, rounded once; integers towards zero.
// Defined only where kAvg is.
using DivideKernel = void (*)(void* data, std::uint64_t count, std::uint32_t divisor);

// Of pairs, max_loc and min_loc take the winner's whole element, padding included: the greater, or
// lesser, value wins, and of equal values, -0 and 0 among them, the lower index, or with equal
// indices the left operand. As with min and max, NaN wins over any number, and among NaNs the lower
// index. The padding of a long double is zero in every result.
//
// The kernel of a level, which the processor must have; nullptr when reduce_defined() is false.
// kAvg gives the sum kernel.
ReduceKernel reduce_kernel(DType dtype, ReduceOp op, CpuLevel level);
DivideKernel divide_kernel(DType dtype, CpuLevel level);

// The fastest kernels that this processor can run.
ReduceKernel reduce_kernel(DType dtype, ReduceOp op);
DivideKernel divide_kernel(DType dtype);

// Scalar references, for tests and for the reference executor.
ReduceKernel reference_reduce_kernel(DType dtype, ReduceOp op);
DivideKernel reference_divide_kernel(DType dtype);

}  // namespace holdfast::comm
