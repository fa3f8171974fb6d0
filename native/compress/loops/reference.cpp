// The reference kernels: the loops on plain lanes, compiled without vectorisation
// (cmake/simd.cmake).
#define HOLDFAST_PLAIN_LANES
#include "compress/loops/select.h"

namespace holdfast::compress {

BlockKernels block_kernels_reference(CodecId id, const CodecOptions& options) {
  return select_block_kernels(id, options);
}

ScanKernels scan_kernels_reference() { return select_scan_kernels(); }

}  // namespace holdfast::compress
