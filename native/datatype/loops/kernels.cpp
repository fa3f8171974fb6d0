#include "datatype/loops/kernels.h"

#include "base/check.h"

namespace holdfast::datatype {

PackKernels pack_kernels(CpuLevel level) {
  switch (level) {
    case CpuLevel::kReference: return pack_kernels_reference();
    case CpuLevel::kBaseline: return pack_kernels_baseline();
#if defined(__x86_64__)
    case CpuLevel::kAvx2: return pack_kernels_avx2();
    case CpuLevel::kAvx512: return pack_kernels_avx512();
#elif defined(__aarch64__)
    case CpuLevel::kNeon: return pack_kernels_neon();
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

}  // namespace holdfast::datatype
