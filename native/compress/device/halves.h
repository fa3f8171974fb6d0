// Frames of the codecs without scales, made and read on the device: a thread handles eight
// elements, as vectors where all addresses are aligned for vectors.
#pragma once

#include "compress/device/codec.h"
#include "compress/device/values.h"
#include "device/memory.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

using device::Thread;
using device::Vector;

inline constexpr std::uint32_t kOctet = 8;

struct Octet {
  float value[kOctet];
};

HOLDFAST_DEVICE bool are_vectors(const void* a, const void* b, const void* c) {
  return ((device::address_of(a) | device::address_of(b) | device::address_of(c)) %
          device::kVectorBytes) == 0;
}

HOLDFAST_DEVICE Octet load_floats(const void* base, std::uint64_t i) {
  Octet out;
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < 2; ++j) {
    const Vector x = device::load_vector(bytes_at(base, 4 * i + 16 * j));
    for (std::uint32_t k = 0; k < 4; ++k) out.value[4 * j + k] = as_float(x.word[k]);
  }
  return out;
}
HOLDFAST_DEVICE void store_floats(void* base, std::uint64_t i, const Octet& x) {
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < 2; ++j) {
    Vector out;
    for (std::uint32_t k = 0; k < 4; ++k) out.word[k] = as_bits(x.value[4 * j + k]);
    device::store_vector(bytes_at(base, 4 * i + 16 * j), out);
  }
}

template <class As>
HOLDFAST_DEVICE Octet load_halves(const void* base, std::uint64_t i) {
  const Vector x = device::load_vector(bytes_at(base, 2 * i));
  Octet out;
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kOctet; ++k) {
    out.value[k] = As::widen(static_cast<std::uint16_t>(x.word[k / 2] >> (16 * (k % 2))));
  }
  return out;
}
template <class Narrow>
HOLDFAST_DEVICE void store_halves(void* base, std::uint64_t i, Narrow narrow) {
  Vector out;
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kOctet; k += 2) {
    out.word[k / 2] = narrow(k) | std::uint32_t{narrow(k + 1)} << 16;
  }
  device::store_vector(bytes_at(base, 2 * i), out);
}

HOLDFAST_DEVICE Octet load_octet(const void* base, DeviceElements elements, std::uint64_t i) {
  switch (elements) {
    case DeviceElements::kBF16: return load_halves<Bf16>(base, i);
    case DeviceElements::kF16: return load_halves<Fp16>(base, i);
    default: return load_floats(base, i);
  }
}

template <class As, bool kStochastic>
HOLDFAST_DEVICE std::uint16_t narrow(float value, std::uint64_t number, std::uint64_t key) {
  if constexpr (kStochastic) {
    return As::narrow_by_chance(value, draw(static_cast<std::uint32_t>(number), key));
  } else {
    return As::narrow(value);
  }
}

// The part of `value` that the code loses; 0 where the code is not finite, or the error would be
// fed back for ever.
template <class As>
HOLDFAST_DEVICE float left_out(float value, std::uint16_t code) {
  const float sent = As::widen(code);
  return magnitude(sent) < kInfinityBits ? value - sent : 0.0F;
}

template <class As, bool kStochastic>
HOLDFAST_DEVICE void encode_octet(const DeviceEncode& a, std::uint64_t i) {
  Octet x = load_octet(a.input, a.elements, i);
  if (a.residual != nullptr) {
    const Octet r = load_floats(a.residual, i);
    for (std::uint32_t k = 0; k < kOctet; ++k) x.value[k] = add(x.value[k], r.value[k]);
  }
  const std::uint64_t key = kStochastic ? key_at(a, i) : 0;
  std::uint16_t code[kOctet];
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kOctet; ++k)
    code[k] = narrow<As, kStochastic>(x.value[k], i + k, key);
  store_halves(a.frame, i, [&](std::uint32_t k) { return code[k]; });
  if (a.residual == nullptr) return;
  for (std::uint32_t k = 0; k < kOctet; ++k) x.value[k] = left_out<As>(x.value[k], code[k]);
  store_floats(a.residual, i, x);
}

template <class As, bool kStochastic>
HOLDFAST_DEVICE void encode_one(const DeviceEncode& a, std::uint64_t i) {
  const float value = encoded_value(a, i);
  const std::uint16_t code = narrow<As, kStochastic>(value, i, kStochastic ? key_at(a, i) : 0);
  device::store_element(a.frame + 2 * i, code);
  if (a.residual != nullptr) a.residual[i] = left_out<As>(value, code);
}

template <class As, bool kStochastic>
HOLDFAST_DEVICE void encode_halves(const Thread& thread, const DeviceEncode& a) {
  const std::uint64_t octets = are_vectors(a.input, a.residual, a.frame) ? a.count / kOctet : 0;
  for (std::uint64_t v = thread.global(); v < octets; v += thread.stride()) {
    encode_octet<As, kStochastic>(a, kOctet * v);
  }
  for (std::uint64_t i = kOctet * octets + thread.global(); i < a.count; i += thread.stride()) {
    encode_one<As, kStochastic>(a, i);
  }
}

template <class As>
HOLDFAST_DEVICE void decode_octet(const DeviceDecode& a, std::uint64_t i) {
  Octet x = load_halves<As>(a.frame, i);
  if (a.add != 0) {
    const Octet sum = load_floats(a.out, i);
    for (std::uint32_t k = 0; k < kOctet; ++k) x.value[k] = sum.value[k] + x.value[k];
  }
  switch (a.elements) {
    case DeviceElements::kBF16:
      store_halves(a.out, i, [&](std::uint32_t k) { return Bf16::narrow(x.value[k]); });
      break;
    case DeviceElements::kF16:
      store_halves(a.out, i, [&](std::uint32_t k) { return Fp16::narrow(x.value[k]); });
      break;
    default: store_floats(a.out, i, x);
  }
}

template <class As>
HOLDFAST_DEVICE void decode_halves(const Thread& thread, const DeviceDecode& a) {
  const std::uint64_t octets = are_vectors(a.frame, a.out, nullptr) ? a.count / kOctet : 0;
  for (std::uint64_t v = thread.global(); v < octets; v += thread.stride()) {
    decode_octet<As>(a, kOctet * v);
  }
  for (std::uint64_t i = kOctet * octets + thread.global(); i < a.count; i += thread.stride()) {
    decode_one(a, i, As::widen(device::load_element<std::uint16_t>(a.frame + 2 * i)));
  }
}

}  // namespace
}  // namespace holdfast::compress
