// The loops at the neon level; its compiler flags are in cmake/simd.cmake.
#include "datatype/loops/select.h"

#if defined(__aarch64__)
namespace holdfast::datatype {

PackKernels pack_kernels_neon() { return select_pack_kernels(); }

}  // namespace holdfast::datatype
#endif
