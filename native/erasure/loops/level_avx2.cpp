// The loop at the avx2 level; its compiler flags are in cmake/simd.cmake.
#if defined(__x86_64__)
#include "erasure/loops/row_loops.h"

namespace holdfast::erasure {

ProductLoop product_loop_avx2() { return vector_loop; }

}  // namespace holdfast::erasure
#endif
