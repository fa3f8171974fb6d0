#include "compress/sum_residual.h"

#include "base/check.h"

namespace holdfast::compress {

const device::KernelRow& sum_residual_kernel() {
  static const device::KernelRow* const row = device::find_kernel("holdfast_sum_residual");
  CHECK(row != nullptr);
  return *row;
}

}  // namespace holdfast::compress
