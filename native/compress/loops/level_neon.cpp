// The loops at the neon level; its compiler flags are in cmake/simd.cmake.
#include "compress/loops/select.h"

#if defined(__aarch64__)
namespace holdfast::compress {

BlockKernels block_kernels_neon(CodecId id, const CodecOptions& options) {
  return select_block_kernels(id, options);
}

ScanKernels scan_kernels_neon() { return select_scan_kernels(); }

}  // namespace holdfast::compress
#endif
