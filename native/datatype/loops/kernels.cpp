#include "datatype/loops/kernels.h"

#include "base/check.h"

namespace holdfast::datatype {

namespace {

#if defined(__x86_64__)
PackKernels with_byte_shuffles(PackKernels kernels) {
  kernels.wide = byte_shuffles();
  return kernels;
}
#endif

}  // namespace

PackKernels pack_kernels(CpuLevel level, [[maybe_unused]] bool byte_permutes) {
  switch (level) {
    case CpuLevel::kReference: return pack_kernels_reference();
    case CpuLevel::kBaseline: return pack_kernels_baseline();
#if defined(__x86_64__)
    case CpuLevel::kAvx2: return pack_kernels_avx2();
    case CpuLevel::kAvx512:
      return byte_permutes ? with_byte_shuffles(pack_kernels_avx512()) : pack_kernels_avx512();
#elif defined(__aarch64__)
    case CpuLevel::kNeon: return pack_kernels_neon();
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

}  // namespace holdfast::datatype
