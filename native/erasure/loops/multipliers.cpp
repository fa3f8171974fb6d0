#include "erasure/loops/kernels.h"

namespace holdfast::erasure {
namespace {

constexpr Multiplier multiplier(unsigned constant) {
  unsigned powers[8] = {};  // the constant, times 2^j
  for (unsigned& power : powers) {
    power = constant;
    constant <<= 1;
    if (constant > 0xff) constant ^= kFieldPolynomial;
  }
  Multiplier out{};
  for (unsigned n = 1; n < 16; ++n) {
    unsigned bit = 0;
    while ((n >> bit & 1) == 0) ++bit;
    const unsigned rest = n & (n - 1);
    out.low[n] = static_cast<Symbol>(out.low[rest] ^ powers[bit]);
    out.high[n] = static_cast<Symbol>(out.high[rest] ^ powers[bit + 4]);
  }
  // Bit i of a product is the parity of the input and row i, whose bit j says whether 2^j has that
  // bit in its product. Row 7 comes first.
  for (unsigned i = 0; i < 8; ++i) {
    std::uint64_t row = 0;
    for (unsigned j = 0; j < 8; ++j) row |= std::uint64_t{powers[j] >> i & 1} << j;
    out.bits |= row << (8 * (7 - i));
  }
  return out;
}

constexpr MultiplierTable find_multipliers() {
  MultiplierTable all{};
  for (unsigned constant = 0; constant < 256; ++constant) {
    all.of[constant] = multiplier(constant);
  }
  return all;
}

}  // namespace

constinit const MultiplierTable kMultipliers = find_multipliers();

}  // namespace holdfast::erasure
