// Four consecutive elements at a time: one load and one store of a thread, whatever the type. All
// addresses will do; those that are multiples of what is accessed are fast.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/device/values.h"

namespace holdfast::compress {
namespace {

inline constexpr std::uint32_t kQuad = 4;
// Quads that a lane loads before it needs the first: many loads in flight use the memory's
// bandwidth.
inline constexpr std::uint32_t kQuadsAhead = 4;

struct Quad {
  float value[kQuad];
};

// Elements as they lie in memory; those of two bytes have the first two words.
struct RawQuad {
  std::uint32_t word[kQuad];
};

HOLDFAST_DEVICE bool fits(const void* base, std::uint32_t bytes) {
  return device::address_of(base) % bytes == 0;
}

HOLDFAST_DEVICE RawQuad load_wide(const void* base, std::uint64_t i, bool is_aligned) {
  RawQuad raw;
  if (is_aligned) {
    const device::Vector x = device::load_vector(bytes_at(base, 4 * i));
    for (std::uint32_t k = 0; k < kQuad; ++k) raw.word[k] = x.word[k];
  } else {
    HOLDFAST_UNROLL
    for (std::uint32_t k = 0; k < kQuad; ++k) {
      raw.word[k] = device::load_element<std::uint32_t>(bytes_at(base, 4 * (i + k)));
    }
  }
  return raw;
}
HOLDFAST_DEVICE RawQuad load_narrow(const void* base, std::uint64_t i, bool is_aligned) {
  std::uint64_t both = 0;
  if (is_aligned) {
    both = *reinterpret_cast<const std::uint64_t*>(bytes_at(base, 2 * i));
  } else {
    HOLDFAST_UNROLL
    for (std::uint32_t k = 0; k < kQuad; ++k) {
      const auto half = device::load_element<std::uint16_t>(bytes_at(base, 2 * (i + k)));
      both |= std::uint64_t{half} << (16 * k);
    }
  }
  return {{static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32), 0, 0}};
}

// Where quads are, and of what: asked once for many of them.
struct QuadsOf {
  const void* base;
  DeviceElements elements;
  bool is_aligned;

  HOLDFAST_DEVICE QuadsOf(const void* begin, DeviceElements of)
      : base(begin), elements(of), is_aligned(fits(base, of == DeviceElements::kF32 ? 16 : 8)) {}

  HOLDFAST_DEVICE RawQuad load(std::uint64_t i) const {
    return elements == DeviceElements::kF32 ? load_wide(base, i, is_aligned)
                                            : load_narrow(base, i, is_aligned);
  }
  // Apart from load(), so that many loads are under way before the first is needed.
  HOLDFAST_DEVICE Quad widen(const RawQuad& raw) const {
    Quad quad;
    HOLDFAST_UNROLL
    for (std::uint32_t k = 0; k < kQuad; ++k) {
      const auto half = static_cast<std::uint16_t>(raw.word[k / 2] >> (16 * (k % 2)));
      switch (elements) {
        case DeviceElements::kBF16: quad.value[k] = Bf16::widen(half); break;
        case DeviceElements::kF16: quad.value[k] = Fp16::widen(half); break;
        default: quad.value[k] = as_float(raw.word[k]);
      }
    }
    return quad;
  }
};

HOLDFAST_DEVICE void store_wide(void* base, std::uint64_t i, const Quad& quad, bool is_aligned) {
  if (is_aligned) {
    device::Vector out;
    for (std::uint32_t k = 0; k < kQuad; ++k) out.word[k] = as_bits(quad.value[k]);
    device::store_vector(bytes_at(base, 4 * i), out);
    return;
  }
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kQuad; ++k) {
    device::store_element(bytes_at(base, 4 * (i + k)), quad.value[k]);
  }
}

HOLDFAST_DEVICE void store_quad(void* base, DeviceElements elements, std::uint64_t i,
                                const Quad& quad, bool is_aligned) {
  if (elements == DeviceElements::kF32) return store_wide(base, i, quad, is_aligned);
  if (!is_aligned) {
    HOLDFAST_UNROLL
    for (std::uint32_t k = 0; k < kQuad; ++k) store_value(base, elements, i + k, quad.value[k]);
    return;
  }
  std::uint64_t both = 0;
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kQuad; ++k) {
    const std::uint16_t half = elements == DeviceElements::kBF16 ? Bf16::narrow(quad.value[k])
                                                                 : Fp16::narrow(quad.value[k]);
    both |= std::uint64_t{half} << (16 * k);
  }
  *reinterpret_cast<std::uint64_t*>(bytes_at(base, 2 * i)) = both;
}

// ---- codes ----

// Bytes of four codes; those of one bit share a byte with four others.
template <std::uint32_t kBits>
inline constexpr std::uint32_t kCodesBytes = kBits < 2 ? 1 : kBits / 2;

// Four codes of `kBits`, the first in the lowest bits.
template <std::uint32_t kBits>
HOLDFAST_DEVICE std::uint32_t load_codes(const std::byte* payload, std::uint64_t i,
                                         bool is_aligned) {
  const std::byte* const at = payload + i * kBits / 8;
  if constexpr (kBits == 1) return static_cast<std::uint32_t>(*at) >> (i % 8) & 15U;
  if constexpr (kBits == 8) {
    if (is_aligned) return *reinterpret_cast<const std::uint32_t*>(at);
  }
  if constexpr (kBits == 4) {
    if (is_aligned) return *reinterpret_cast<const std::uint16_t*>(at);
  }
  std::uint32_t codes = 0;
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kCodesBytes<kBits>; ++k) {
    codes |= static_cast<std::uint32_t>(at[k]) << (8 * k);
  }
  return codes;
}
template <std::uint32_t kBits>
HOLDFAST_DEVICE std::uint32_t code_at(std::uint32_t codes, std::uint32_t k) {
  return codes >> (kBits * k) & ((1U << kBits) - 1);
}

template <std::uint32_t kBits>
HOLDFAST_DEVICE void store_codes(std::byte* payload, std::uint64_t i, std::uint32_t codes,
                                 bool is_aligned) {
  static_assert(kBits == 4 || kBits == 8);
  std::byte* const at = payload + i * kBits / 8;
  if (is_aligned) {
    if constexpr (kBits == 8) *reinterpret_cast<std::uint32_t*>(at) = codes;
    if constexpr (kBits == 4) {
      *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(codes);
    }
    return;
  }
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kCodesBytes<kBits>; ++k) {
    at[k] = static_cast<std::byte>(codes >> (8 * k));
  }
}

}  // namespace
}  // namespace holdfast::compress
