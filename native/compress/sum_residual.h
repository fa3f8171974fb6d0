// Sum residual: the part of a sum that its frame loses is added to its owner's residual
// (docs/reference/codecs.md), on a device and with the same bits as on the CPU.
#pragma once

#include <cstdint>

#include "device/kernel.h"

namespace holdfast::compress {

// residual[i] += times * (sum[i] - decoded[i]), where the difference is finite.
struct SumResidualArgument {
  float* residual;
  const float* sum;
  const float* decoded;  // from the sum's frame
  std::uint64_t count;
  float times;
};

const device::KernelRow& sum_residual_kernel();

}  // namespace holdfast::compress
