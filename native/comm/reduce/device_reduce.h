// The reduction on a GPU: out[i] = in[0][i] (op) in[1][i] (op) ..., from left to right, each step
// rounded as kernels.h says, then divided. With two inputs the result is that of reduce_kernel(),
// with one input and a divisor that of divide_kernel(). With more inputs each is read once and no
// partial result is stored.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/kernel.h"

namespace holdfast::comm {

inline constexpr std::uint32_t kMostReduceInputs = 16;

// `out` may be one of the inputs; otherwise they do not overlap. Addresses need no alignment:
// elements are moved in vectors of 16 bytes unless `out` is not even aligned to its own elements.
struct ReduceArgument {
  void* out;
  const void* in[kMostReduceInputs];
  std::uint64_t count;    // in units of the kernel's elements, see DeviceReduce
  std::uint32_t inputs;   // 1..kMostReduceInputs
  std::uint32_t divisor;  // 1 where nothing is divided; others only where kAvg is defined
};

// The kernel of a (dtype, op). Several share a kernel: integers wrap whatever their sign, and a
// complex sum is two real ones.
struct DeviceReduce {
  const device::KernelRow* kernel = nullptr;  // nullptr where reduces_on_device() is false
  std::uint32_t elements = 1;                 // elements that the kernel counts to one of the dtype
  std::uint32_t per_thread = 1;               // of those elements, at a time
};

// Whether devices have a kernel for it. Logical operators, long double and pairs are reduced by the
// host, on copies of device memory.
inline bool reduces_on_device(DType dtype, ReduceOp op) {
  return dtype <= DType::kC128 && op <= ReduceOp::kBxor && reduce_defined(dtype, op);
}

DeviceReduce device_reduce(DType dtype, ReduceOp op);

}  // namespace holdfast::comm
