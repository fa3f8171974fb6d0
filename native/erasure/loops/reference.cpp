// The reference: bit by bit, from the definition of the field alone. No other level shares anything
// with it.
#include "erasure/loops/kernels.h"

namespace holdfast::erasure {
namespace {

unsigned peasant_product(unsigned a, unsigned b) {
  unsigned product = 0;
  for (; b != 0; b >>= 1) {
    if ((b & 1) != 0) product ^= a;
    a <<= 1;
    if (a > 0xff) a ^= kFieldPolynomial;
  }
  return product;
}

void reference_loop(const ProductRun& run) {
  for (std::size_t r = 0; r < run.rows; ++r) {
    for (std::size_t at = run.begin; at < run.end; ++at) {
      unsigned sum = run.add ? static_cast<unsigned>(run.outputs[r][at]) : 0;
      for (std::size_t i = 0; i < run.count; ++i) {
        sum ^= peasant_product(static_cast<unsigned>(run.inputs[i][at]),
                               run.coefficients[r * run.count + i]);
      }
      run.outputs[r][at] = static_cast<std::byte>(sum);
    }
  }
}

}  // namespace

ProductLoop product_loop_reference() { return reference_loop; }

}  // namespace holdfast::erasure
