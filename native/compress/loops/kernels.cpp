#include "compress/loops/kernels.h"

#include "base/check.h"

namespace holdfast::compress {

BlockKernels block_kernels(CpuLevel level, CodecId id, const CodecOptions& options) {
  switch (level) {
    case CpuLevel::kReference: return block_kernels_reference(id, options);
    case CpuLevel::kBaseline: return block_kernels_baseline(id, options);
#if defined(__x86_64__)
    case CpuLevel::kAvx2: return block_kernels_avx2(id, options);
    case CpuLevel::kAvx512: return block_kernels_avx512(id, options);
#elif defined(__aarch64__)
    case CpuLevel::kNeon: return block_kernels_neon(id, options);
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

ScanKernels scan_kernels(CpuLevel level) {
  switch (level) {
    case CpuLevel::kReference: return scan_kernels_reference();
    case CpuLevel::kBaseline: return scan_kernels_baseline();
#if defined(__x86_64__)
    case CpuLevel::kAvx2: return scan_kernels_avx2();
    case CpuLevel::kAvx512: return scan_kernels_avx512();
#elif defined(__aarch64__)
    case CpuLevel::kNeon: return scan_kernels_neon();
#endif
    default: break;
  }
  check_failed("a level of this processor", __FILE__, __LINE__);
}

}  // namespace holdfast::compress
