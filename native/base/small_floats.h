// Conversions between f32 and the 16- and 8-bit floats: exact widening, rounding to nearest even.
// Branch-free, so that the compiler can vectorise the loops around them. Included by every
// instruction level's kernels; everything here has internal linkage, or the linker could pick a
// copy compiled for a newer CPU. constexpr, so that device code may call it.
#pragma once

#include <bit>
#include <cstdint>

namespace holdfast {
namespace {

constexpr float as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
constexpr std::uint32_t as_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

// A float of `kExponent` exponent and `kMantissa` mantissa bits, as IEEE 754 has it, except with
// kFinite. kFinite: e4m3fn, without infinities: all ones is NaN, and values that do not fit become
// NaN.
template <int kExponent, int kMantissa, bool kFinite, class Storage>
struct SmallFloat {
  Storage bits;

  static constexpr int kShift = 23 - kMantissa;
  static constexpr std::uint32_t kBias = (1U << (kExponent - 1)) - 1;
  static constexpr std::uint32_t kMagnitude = (1U << (kExponent + kMantissa)) - 1;
  static constexpr std::uint32_t kInfinity = kMagnitude - ((1U << kMantissa) - 1);
  static constexpr std::uint32_t kNan = kFinite ? kMagnitude : kInfinity | (1U << (kMantissa - 1));
  // First f32 (as bits) that rounds beyond the largest finite value.
  static constexpr std::uint32_t kLargestExponent = kFinite ? kBias + 1 : kBias;
  static constexpr std::uint32_t kLargestMantissa = (1U << kMantissa) - (kFinite ? 2 : 1);
  static constexpr std::uint32_t kOverflow = ((127 + kLargestExponent) << 23) +
                                             (kLargestMantissa << kShift) + (1U << (kShift - 1)) +
                                             (kFinite ? 1 : 0);
  static constexpr std::uint32_t kSmallestNormal = (127 - kBias + 1) << 23;

  constexpr float widen() const {
    const std::uint32_t magnitude = bits & kMagnitude;
    const std::uint32_t sign = static_cast<std::uint32_t>(bits >> (kExponent + kMantissa)) << 31;
    // Scaling by a power of two is exact and turns denormals into normal numbers.
    const float scaled = as_float(magnitude << kShift) * as_float((254 - kBias) << 23);
    const bool special = kFinite ? magnitude == kMagnitude : magnitude >= kInfinity;
    const std::uint32_t wide = special ? (magnitude << kShift) | 0x7f800000U : as_bits(scaled);
    return as_float(wide | sign);
  }

  static constexpr SmallFloat narrow(float value) {
    const std::uint32_t all = as_bits(value);
    const std::uint32_t sign = all >> 31;
    const std::uint32_t x = all & 0x7fffffffU;
    const std::uint32_t odd = (x >> kShift) & 1;
    const std::uint32_t normal =
        (x - ((127 - kBias) << 23) + ((1U << (kShift - 1)) - 1) + odd) >> kShift;
    // Adding a number whose last bit weighs as much as the smallest denormal rounds in hardware.
    constexpr std::uint32_t kAligner = (127 - kBias + 1 + static_cast<std::uint32_t>(kShift)) << 23;
    const std::uint32_t tiny =
        as_bits(as_float(x < kSmallestNormal ? x : 0) + as_float(kAligner)) - kAligner;
    const std::uint32_t beyond = x > 0x7f800000U ? kNan : (kFinite ? kMagnitude : kInfinity);
    const std::uint32_t rounded = x < kSmallestNormal ? tiny : normal;
    const std::uint32_t magnitude = x >= kOverflow ? beyond : rounded;
    return {static_cast<Storage>(magnitude | (sign << (kExponent + kMantissa)))};
  }
};

using Half = SmallFloat<5, 10, false, std::uint16_t>;
// The upper half of an f32: nothing has to be scaled.
struct Bfloat {
  std::uint16_t bits;

  constexpr float widen() const { return as_float(std::uint32_t{bits} << 16); }
  static constexpr Bfloat narrow(float value) {
    const std::uint32_t all = as_bits(value);
    const std::uint32_t rounded = (all + 0x7fffU + (all >> 16 & 1)) >> 16;
    const std::uint32_t nan = (all >> 16 & 0x8000U) | 0x7fc0U;
    return {static_cast<std::uint16_t>((all & 0x7fffffffU) > 0x7f800000U ? nan : rounded)};
  }
};
using Float8E4M3 = SmallFloat<4, 3, true, std::uint8_t>;
using Float8E5M2 = SmallFloat<5, 2, false, std::uint8_t>;

}  // namespace
}  // namespace holdfast
