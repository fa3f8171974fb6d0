// The shuffles of single bytes across a vector; their compiler flags are in cmake/simd.cmake.
#include "datatype/loops/kernels.h"
#include "datatype/loops/shuffle_loops.h"

#if defined(__x86_64__)
namespace holdfast::datatype {

ShuffleForm byte_shuffles() { return wide_shuffles(); }

}  // namespace holdfast::datatype
#endif
