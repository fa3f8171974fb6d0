// The loops at the avx512 level; its compiler flags are in cmake/simd.cmake.
#include "compress/loops/select.h"

#if defined(__x86_64__)
namespace holdfast::compress {

BlockKernels block_kernels_avx512(CodecId id, const CodecOptions& options) {
  return select_block_kernels(id, options);
}

ScanKernels scan_kernels_avx512() { return select_scan_kernels(); }

}  // namespace holdfast::compress
#endif
