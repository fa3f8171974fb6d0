// Adds the part of a sum that its frame loses to the residual; a thread handles an element at a
// time.
#include "compress/sum_residual.h"
#include "device/kernel_sets.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

using device::Thread;

HOLDFAST_DEVICE void take_sum_residual(const Thread& thread, const SumResidualArgument& a) {
  constexpr float kLargest = 3.402823466e38F;
  for (std::uint64_t i = thread.global(); i < a.count; i += thread.stride()) {
    const float more = a.decoded[i] - a.sum[i];
    // A block with a NaN or an infinity adds no residual.
    if (more >= -kLargest && more <= kLargest) a.residual[i] -= a.times * more;
  }
}

}  // namespace
}  // namespace holdfast::compress

namespace holdfast {

#define SUM_RESIDUAL_KERNELS(KERNEL) KERNEL(holdfast_sum_residual, compress::take_sum_residual)

HOLDFAST_KERNELS(sum_residual, SUM_RESIDUAL_KERNELS)

}  // namespace holdfast
