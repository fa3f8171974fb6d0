// Sixteen lanes as loops over arrays; see lanes.h. This version defines the meaning of each
// operation.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/small_floats.h"

namespace holdfast::compress {
namespace {

inline constexpr bool kInRegisters = false;  // whether a whole block may be held

struct Floats {
  std::array<float, 16> lane;
};
struct Words {
  std::array<std::uint32_t, 16> lane;
};

template <class Out, class F>
Out lanewise(F f) {
  Out out;
  for (std::size_t i = 0; i < 16; ++i) out.lane[i] = f(i);
  return out;
}

inline Floats floats(float x) {
  return lanewise<Floats>([&](std::size_t) { return x; });
}
inline Words words(std::uint32_t x) {
  return lanewise<Words>([&](std::size_t) { return x; });
}
inline Words lane_numbers(std::uint32_t first) {
  return lanewise<Words>([&](std::size_t i) { return first + static_cast<std::uint32_t>(i); });
}
inline Floats load(const void* from) {
  Floats out;
  std::memcpy(&out, from, sizeof out);
  return out;
}
inline void store(void* to, Floats x) { std::memcpy(to, &x, sizeof x); }
inline Words bits_of(Floats x) {
  return lanewise<Words>([&](std::size_t i) { return as_bits(x.lane[i]); });
}
inline Floats floats_of(Words x) {
  return lanewise<Floats>([&](std::size_t i) { return as_float(x.lane[i]); });
}

inline Floats operator+(Floats a, Floats b) {
  return lanewise<Floats>([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
}
inline Floats operator-(Floats a, Floats b) {
  return lanewise<Floats>([&](std::size_t i) { return a.lane[i] - b.lane[i]; });
}
inline Floats operator*(Floats a, Floats b) {
  return lanewise<Floats>([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
}
inline Words operator+(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
}
inline Words operator-(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] - b.lane[i]; });
}
inline Words operator*(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
}
inline Words operator&(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] & b.lane[i]; });
}
inline Words operator|(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] | b.lane[i]; });
}
inline Words operator^(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] ^ b.lane[i]; });
}
inline Words operator<<(Words a, int by) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] << by; });
}
inline Words operator>>(Words a, int by) {
  return lanewise<Words>([&](std::size_t i) { return a.lane[i] >> by; });
}
inline std::int32_t as_signed(std::uint32_t x) { return static_cast<std::int32_t>(x); }

// a < b ? x : y for each lane; a and b must be below 2^31.
inline Words pick_less(Words a, Words b, Words x, Words y) {
  return lanewise<Words>(
      [&](std::size_t i) { return a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i]; });
}
// Maximum and minimum of lanes as signed numbers.
inline Words greater(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) {
    return as_signed(a.lane[i]) > as_signed(b.lane[i]) ? a.lane[i] : b.lane[i];
  });
}
inline Words less(Words a, Words b) {
  return lanewise<Words>([&](std::size_t i) {
    return as_signed(a.lane[i]) < as_signed(b.lane[i]) ? a.lane[i] : b.lane[i];
  });
}
// Shifts right and copies the sign bit in.
inline Words shift_signed(Words a, int by) {
  return lanewise<Words>(
      [&](std::size_t i) { return static_cast<std::uint32_t>(as_signed(a.lane[i]) >> by); });
}

// Rounds to the nearest integer, ties to even; magnitudes must be below 2^22.
inline Words round_nearest(Floats x) {
  constexpr float kAligner = 12582912.0F;  // 1.5 * 2^23: its last bit weighs 1
  return lanewise<Words>(
      [&](std::size_t i) { return as_bits(x.lane[i] + kAligner) - as_bits(kAligner); });
}
inline Words round_down(Floats x) {
  return lanewise<Words>([&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::floor(x.lane[i])));
  });
}
inline Floats from_signed(Words x) {
  return lanewise<Floats>([&](std::size_t i) { return static_cast<float>(as_signed(x.lane[i])); });
}

inline std::int32_t greatest(Words x) {
  std::int32_t best = as_signed(x.lane[0]);
  for (const std::uint32_t v : x.lane) best = as_signed(v) > best ? as_signed(v) : best;
  return best;
}
inline std::int32_t least(Words x) {
  std::int32_t best = as_signed(x.lane[0]);
  for (const std::uint32_t v : x.lane) best = as_signed(v) < best ? as_signed(v) : best;
  return best;
}
// Adds halves onto halves: the order of additions is part of the format.
inline float sum(Floats x) {
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) x.lane[i] = x.lane[i] + x.lane[i + half];
  }
  return x.lane[0];
}

// Bit i is lane i's sign.
inline std::uint32_t signs(Floats x) {
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < 16; ++i) mask |= (as_bits(x.lane[i]) >> 31) << i;
  return mask;
}
inline Floats with_signs(std::uint32_t mask, Floats x) {
  return lanewise<Floats>(
      [&](std::size_t i) { return as_float(as_bits(x.lane[i]) ^ ((mask >> i & 1U) << 31)); });
}

// The low byte, half word or four bits of each lane, in order.
inline void store_bytes(void* to, Words x) {
  auto* out = static_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < 16; ++i) out[i] = static_cast<std::uint8_t>(x.lane[i]);
}
inline Words load_bytes(const void* from) {
  const auto* in = static_cast<const std::uint8_t*>(from);
  return lanewise<Words>([&](std::size_t i) { return std::uint32_t{in[i]}; });
}
inline void store_nibbles(void* to, Words x) {
  auto* out = static_cast<std::uint8_t*>(to);
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<std::uint8_t>((x.lane[2 * i] & 15U) | (x.lane[2 * i + 1] & 15U) << 4);
  }
}
inline Words load_nibbles(const void* from) {
  const auto* in = static_cast<const std::uint8_t*>(from);
  return lanewise<Words>(
      [&](std::size_t i) { return (std::uint32_t{in[i / 2]} >> (4 * (i % 2))) & 15U; });
}
inline void store_halfwords(void* to, Words x) {
  for (std::size_t i = 0; i < 16; ++i) {
    const auto half = static_cast<std::uint16_t>(x.lane[i]);
    std::memcpy(static_cast<std::byte*>(to) + 2 * i, &half, sizeof half);
  }
}
inline Words load_halfwords(const void* from) {
  return lanewise<Words>([&](std::size_t i) {
    std::uint16_t half = 0;
    std::memcpy(&half, static_cast<const std::byte*>(from) + 2 * i, sizeof half);
    return std::uint32_t{half};
  });
}
inline Words half_bits(Floats x) {
  return lanewise<Words>(
      [&](std::size_t i) { return std::uint32_t{Half::narrow(x.lane[i]).bits}; });
}
// A signalling NaN becomes a quiet one, as on processors.
inline Floats from_half_bits(Words x) {
  return lanewise<Floats>([&](std::size_t i) {
    const float wide = Half{static_cast<std::uint16_t>(x.lane[i])}.widen();
    return std::isnan(wide) ? as_float(as_bits(wide) | 0x400000U) : wide;
  });
}

}  // namespace
}  // namespace holdfast::compress
