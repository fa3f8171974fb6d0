// What the avx512 level adds; its compiler flags are in cmake/simd.cmake.
#include "datatype/loops/gather_loops.h"
#include "datatype/loops/kernels.h"
#include "datatype/loops/shuffle_loops.h"

#if defined(__x86_64__)
namespace holdfast::datatype {

PackKernels pack_kernels_avx512() {
  PackKernels kernels = pack_kernels_baseline();
  kernels.narrow = narrow_shuffles();
  kernels.wide = wide_shuffles();
  kernels.gather4 = gather4_loop;
  kernels.gather8 = gather8_loop;
  return kernels;
}

}  // namespace holdfast::datatype
#endif
