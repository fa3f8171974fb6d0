// f16 as the device converts it: with its own instructions, which round like small_floats.h but
// make only one NaN, without a sign.
#pragma once

#include <cstdint>

#include "base/small_floats.h"
#include "device/simt.h"

namespace holdfast::device {

#if defined(__CUDACC__)
struct Half {
  std::uint16_t bits;

  __device__ float widen() const {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
  }
  static __device__ Half narrow(float value) {
    std::uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    const std::uint32_t sign = as_bits(value) >> 16 & 0x8000U;
    if (value != value) half = static_cast<std::uint16_t>(sign | holdfast::Half::kNan);
    return {half};
  }
};
#else
using holdfast::Half;
#endif

}  // namespace holdfast::device
