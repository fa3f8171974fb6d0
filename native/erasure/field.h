// GF(2^8), the field of the code: a byte is a polynomial over GF(2), modulo x^8 + x^4 + x^3 + x^2 +
// 1 (0x11d), which 2 generates. That is ISA-L's field, so that its library judges our bytes. Single
// symbols only: whole tiles go through products.h.
#pragma once

#include <cstdint>

namespace holdfast::erasure {

using Symbol = std::uint8_t;

inline constexpr unsigned kFieldPolynomial = 0x11d;

Symbol times(Symbol a, Symbol b);
Symbol inverse(Symbol a);  // of any but zero

}  // namespace holdfast::erasure
