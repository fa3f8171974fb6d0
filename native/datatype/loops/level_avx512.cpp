// The loops at the avx512 level; its compiler flags are in cmake/simd.cmake.
#include "datatype/loops/select.h"

#if defined(__x86_64__)
namespace holdfast::datatype {

PackKernels pack_kernels_avx512() { return select_pack_kernels(); }

}  // namespace holdfast::datatype
#endif
