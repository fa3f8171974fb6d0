// Elements of the codecs' kernels: loading and widening, narrowing and storing, and the random bits
// of stochastic rounding. A thread handles one value where the CPU handles sixteen (lanes.h), with
// the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/small_floats.h"
#include "compress/block_layout.h"
#include "compress/device/codec.h"
#include "device/half.h"
#include "device/memory.h"

namespace holdfast::compress {
namespace {

using device::bytes_at;

inline constexpr std::uint32_t kMagnitudeBits = 0x7fffffffU;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000U;
inline constexpr std::uint32_t kNanBits = 0x7fc00000U;
inline constexpr std::uint32_t kQuietBit = 0x400000U;

HOLDFAST_DEVICE std::uint32_t magnitude(float x) { return as_bits(x) & kMagnitudeBits; }

// Devices make one NaN only; CPUs keep the first operand's NaN, and make a negative one for
// infinity minus infinity and infinity times zero. Frames may hold the NaN's bits, and so does what
// is read from them: this function gives the CPU's.
HOLDFAST_DEVICE float with_cpus_nan(float result, [[maybe_unused]] float a,
                                    [[maybe_unused]] float b) {
#if defined(__CUDACC__)
  if (result != result) {
    if (a != a) return as_float(as_bits(a) | kQuietBit);
    return b != b ? as_float(as_bits(b) | kQuietBit) : as_float(0xffc00000U);
  }
#endif
  return result;
}
HOLDFAST_DEVICE float add(float a, float b) { return with_cpus_nan(a + b, a, b); }
HOLDFAST_DEVICE float multiply(float a, float b) { return with_cpus_nan(a * b, a, b); }

struct Bf16 {
  static HOLDFAST_DEVICE float widen(std::uint16_t x) { return as_float(std::uint32_t{x} << 16); }
  // `rest` is added below the last place, to round.
  static HOLDFAST_DEVICE std::uint16_t cut(float value, std::uint32_t rest) {
    const std::uint32_t bits = as_bits(value);
    const bool nan = magnitude(value) > kInfinityBits;
    return static_cast<std::uint16_t>(nan ? bits >> 16 | 0x40U : (bits + rest) >> 16);
  }
  static HOLDFAST_DEVICE std::uint16_t narrow(float value) {
    return cut(value, (as_bits(value) >> 16 & 1U) + 0x7fffU);
  }
  static HOLDFAST_DEVICE std::uint16_t narrow_by_chance(float value, std::uint32_t chance) {
    // The random bits must not turn an infinity into a NaN.
    return cut(value, magnitude(value) < kInfinityBits ? chance >> 16 : 0);
  }
};

struct Fp16 {
  static HOLDFAST_DEVICE float widen(std::uint16_t x) {
    const float wide = Half{x}.widen();
    return magnitude(wide) > kInfinityBits ? as_float(as_bits(wide) | kQuietBit) : wide;
  }
  static HOLDFAST_DEVICE std::uint16_t narrow(float value) {
    return device::Half::narrow(value).bits;
  }
  static HOLDFAST_DEVICE std::uint16_t narrow_by_chance(float value, std::uint32_t) {
    return narrow(value);
  }
};

HOLDFAST_DEVICE float load_value(const void* base, DeviceElements elements, std::uint64_t i) {
  switch (elements) {
    case DeviceElements::kBF16:
      return Bf16::widen(device::load_element<std::uint16_t>(bytes_at(base, 2 * i)));
    case DeviceElements::kF16:
      return Fp16::widen(device::load_element<std::uint16_t>(bytes_at(base, 2 * i)));
    default: return device::load_element<float>(bytes_at(base, 4 * i));
  }
}

HOLDFAST_DEVICE void store_value(void* base, DeviceElements elements, std::uint64_t i,
                                 float value) {
  switch (elements) {
    case DeviceElements::kBF16:
      device::store_element(bytes_at(base, 2 * i), Bf16::narrow(value));
      break;
    case DeviceElements::kF16:
      device::store_element(bytes_at(base, 2 * i), Fp16::narrow(value));
      break;
    default: device::store_element(bytes_at(base, 4 * i), value);
  }
}

HOLDFAST_DEVICE void decode_one(const DeviceDecode& a, std::uint64_t i, float value) {
  if (a.add != 0) value = static_cast<const float*>(a.out)[i] + value;
  store_value(a.out, a.elements, i, value);
}

// The value that is encoded for element i: input plus residual.
HOLDFAST_DEVICE float encoded_value(const DeviceEncode& a, std::uint64_t i) {
  const float x = load_value(a.input, a.elements, i);
  return a.residual != nullptr ? add(x, a.residual[i]) : x;
}

// The same as draw() in lanes.h: 32 bits that look random.
HOLDFAST_DEVICE std::uint32_t draw(std::uint32_t number, std::uint64_t key) {
  std::uint32_t x = number * 0x9e3779b9U + static_cast<std::uint32_t>(key);
  x = (x ^ (x >> 16)) * 0x7feb352dU;
  x = x ^ static_cast<std::uint32_t>(key >> 32);
  x = (x ^ (x >> 15)) * 0x846ca68bU;
  return x ^ (x >> 16);
}

// The key of the run that element i is in.
HOLDFAST_DEVICE std::uint64_t key_at(const DeviceEncode& a, std::uint64_t i) {
  if (i >> 32 == 0) return key_of(a.key, 0);
  const std::uint64_t run = kRunElements / a.block * a.block;
  return key_of(a.key, i / run * run);
}

}  // namespace
}  // namespace holdfast::compress
