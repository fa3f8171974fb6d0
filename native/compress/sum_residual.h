// What the frame of a sum does not say, added to its owner's residual (docs/codecs.md), on a device
// and with the bits that the processor gives.
#pragma once

#include <cstdint>

#include "device/kernel.h"

namespace holdfast::compress {

// owed[i] += times * (sum[i] - decoded[i]), where that is a number.
struct SumResidualArgument {
  float* residual;
  const float* sum;
  const float* decoded;  // from the sum's frame
  std::uint64_t count;
  float times;
};

const device::KernelRow& owe_kernel();

}  // namespace holdfast::compress
