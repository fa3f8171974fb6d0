// The loop of AVX2 with GFNI; its compiler flags are in cmake/simd.cmake.
#if defined(__x86_64__)
#include "erasure/loops/row_loops.h"

namespace holdfast::erasure {

ProductLoop product_loop_galois256() { return vector_loop; }

}  // namespace holdfast::erasure
#endif
