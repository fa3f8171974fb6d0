// The loops at the baseline level; its compiler flags are in cmake/simd.cmake.
#include "compress/loops/select.h"

namespace holdfast::compress {

BlockKernels block_kernels_baseline(CodecId id, const CodecOptions& options) {
  return select_block_kernels(id, options);
}

ScanKernels scan_kernels_baseline() { return select_scan_kernels(); }

}  // namespace holdfast::compress
