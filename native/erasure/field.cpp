#include "erasure/field.h"

#include <array>
#include <cstddef>

#include "base/check.h"

namespace holdfast::erasure {
namespace {

constexpr std::size_t kUnits = 255;  // symbols that have an inverse: the powers of 2

struct Logarithms {
  std::array<Symbol, 2 * kUnits> power{};  // twice, so that a sum of two logarithms is an index
  std::array<std::uint16_t, kUnits + 1> log{};
};

constexpr Logarithms find_logarithms() {
  Logarithms found;
  unsigned power = 1;
  for (std::size_t i = 0; i < kUnits; ++i) {
    found.power[i] = static_cast<Symbol>(power);
    found.power[i + kUnits] = static_cast<Symbol>(power);
    found.log[power] = static_cast<std::uint16_t>(i);
    power <<= 1;
    if (power > 0xff) power ^= kFieldPolynomial;
  }
  return found;
}

constexpr Logarithms kLogarithms = find_logarithms();

}  // namespace

Symbol times(Symbol a, Symbol b) {
  if (a == 0 || b == 0) return 0;
  return kLogarithms.power[std::size_t{kLogarithms.log[a]} + kLogarithms.log[b]];
}

Symbol inverse(Symbol a) {
  CHECK(a != 0);
  return kLogarithms.power[kUnits - kLogarithms.log[a]];
}

}  // namespace holdfast::erasure
