// What the neon level adds; its compiler flags are in cmake/simd.cmake.
#include "datatype/loops/kernels.h"
#include "datatype/loops/shuffle_loops.h"

#if defined(__aarch64__)
namespace holdfast::datatype {

PackKernels pack_kernels_neon() {
  PackKernels kernels = pack_kernels_baseline();
  kernels.narrow = narrow_shuffles();
  return kernels;
}

}  // namespace holdfast::datatype
#endif
