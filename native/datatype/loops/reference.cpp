// The loops as they are written, at no level; their compiler flags are in cmake/simd.cmake.
#include "datatype/loops/select.h"

namespace holdfast::datatype {

PackKernels pack_kernels_reference() { return select_pack_kernels(); }

}  // namespace holdfast::datatype
