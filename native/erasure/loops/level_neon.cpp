// The loop at the neon level; its compiler flags are in cmake/simd.cmake.
#if defined(__aarch64__)
#include "erasure/loops/row_loops.h"

namespace holdfast::erasure {

ProductLoop product_loop_neon() { return vector_loop; }

}  // namespace holdfast::erasure
#endif
