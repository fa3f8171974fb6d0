// The loops at the baseline level; its compiler flags are in cmake/simd.cmake.
#include "datatype/loops/select.h"

namespace holdfast::datatype {

PackKernels pack_kernels_baseline() { return select_pack_kernels(); }

}  // namespace holdfast::datatype
