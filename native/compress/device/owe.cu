// The rest of a sum that its frame leaves out: an element to a thread.
#include "compress/owe.h"
#include "device/kernel_sets.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

using device::Thread;

HOLDFAST_DEVICE void owe(const Thread& thread, const OweArgument& a) {
  constexpr float kLargest = 3.402823466e38F;
  for (std::uint64_t i = thread.global(); i < a.count; i += thread.stride()) {
    const float more = a.decoded[i] - a.sum[i];
    // A block that is not a number owes nothing.
    if (more >= -kLargest && more <= kLargest) a.owed[i] -= a.times * more;
  }
}

}  // namespace
}  // namespace holdfast::compress

namespace holdfast {

#define OWE_KERNELS(KERNEL) KERNEL(holdfast_owe, compress::owe)

HOLDFAST_KERNELS(owe, OWE_KERNELS)

}  // namespace holdfast
