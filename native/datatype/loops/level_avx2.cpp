// What the avx2 level adds; its compiler flags are in cmake/simd.cmake.
#include "datatype/loops/kernels.h"
#include "datatype/loops/shuffle_loops.h"

#if defined(__x86_64__)
namespace holdfast::datatype {

PackKernels pack_kernels_avx2() {
  PackKernels kernels = pack_kernels_baseline();
  kernels.narrow = narrow_shuffles();
  return kernels;
}

}  // namespace holdfast::datatype
#endif
