// Frames of the block codecs, made and read on the device. Codecs with scales: a warp reads its
// block once, in rows of 32 elements at any alignment, and keeps it in registers. Codecs without
// scales: a thread handles eight elements, as vectors where all addresses are aligned for vectors.
#include "compress/block_layout.h"
#include "compress/device/codec.h"
#include "compress/device/formats.h"
#include "compress/device/values.h"
#include "device/kernel_sets.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

using device::Thread;
using device::Vector;

// ---- codecs with scales ----

template <class Codec>
HOLDFAST_DEVICE BlockLayout layout_of(std::uint32_t block, std::uint64_t count) {
  return {block, Codec::kFormat, count};
}

// `parts` is a compile-time constant for the common block sizes.
HOLDFAST_DEVICE LaneValues hold(const Team& team, const DeviceEncode& a, std::uint64_t number,
                                std::uint32_t parts) {
  const std::uint64_t at = number * a.block;
  LaneValues held;
  held.parts = parts;
  held.live = 0;
  if (at < a.count) {
    const std::uint64_t left = a.count - at;
    held.live = left < a.block ? static_cast<std::uint32_t>(left) : a.block;
  }
  const std::uint32_t lane = team.lane();
  for_parts(held, [&](std::uint32_t j) {
    held.value[j] = held.has(j, lane) ? encoded_value(a, at + kWarp * j + lane) : 0.0F;
  });
  return held;
}

template <class Codec>
HOLDFAST_DEVICE void encode_block(const Team& team, const DeviceEncode& a, std::byte* payload,
                                  std::uint64_t number, const LaneValues& held) {
  const std::uint64_t at = number * a.block;
  const std::uint32_t lane = team.lane();
  const auto scale = Codec::scale_of(team, held);
  if (lane == 0) Codec::store_scale(a.frame + number * Codec::kFormat.scale_bytes, scale);
  const std::uint64_t key = Codec::kByChance ? key_at(a, at) : 0;
  for_parts(held, [&](std::uint32_t j) {
    const std::uint32_t i = kWarp * j + lane;
    const float value = held.value[j];
    const bool live = held.has(j, lane);
    std::uint32_t code = 0;
    float error = 0;
    if (scale.finite && live) {
      code = Codec::encode(value, scale, at + i, key);
      error = value - Codec::decode(code, scale);
    }
    Codec::store(team, payload, i, code, live);
    if (a.residual != nullptr && live) a.residual[at + i] = error;
  });
}

// A warp reads as many blocks as its registers hold before it writes the first: many loads in
// flight use the memory's bandwidth.
template <class Codec, std::uint32_t kParts>
HOLDFAST_DEVICE void encode_all(const Team& team, const DeviceEncode& a) {
  constexpr std::uint32_t kGroup = kParts != 0 ? kMostParts / kParts : 1;
  const BlockLayout layout = layout_of<Codec>(a.block, a.count);
  const std::uint32_t parts = kParts != 0 ? kParts : a.block / kWarp;
  const std::uint64_t blocks = (a.count + a.block - 1) / a.block;
  for (std::uint64_t b = kGroup * team.warp(); b < blocks; b += kGroup * team.warps()) {
    LaneValues held[kGroup];
    HOLDFAST_UNROLL
    for (std::uint32_t g = 0; g < kGroup; ++g) held[g] = hold(team, a, b + g, parts);
    HOLDFAST_UNROLL
    for (std::uint32_t g = 0; g < kGroup; ++g) {
      if (b + g >= blocks) break;
      encode_block<Codec>(team, a, a.frame + layout.payload_at((b + g) * a.block), b + g, held[g]);
    }
  }
}

template <class Codec>
HOLDFAST_DEVICE void encode_blocks(const Team& team, const DeviceEncode& a) {
  switch (a.block) {
    case 128: encode_all<Codec, 4>(team, a); break;
    case 512: encode_all<Codec, 16>(team, a); break;
    default: encode_all<Codec, 0>(team, a);
  }
}

// Rows of 32 elements that a warp loads at a time, enough to keep the memory busy; a row has one
// scale.
inline constexpr std::uint32_t kRowsAhead = 8;

template <class Codec>
HOLDFAST_DEVICE void decode_rows(const Thread& thread, const DeviceDecode& a,
                                 const std::byte* payload, std::uint64_t row) {
  const std::uint32_t parts = a.block / kWarp;
  std::uint64_t block = row / parts;
  auto part = static_cast<std::uint32_t>(row % parts);
  std::uint32_t code[kRowsAhead];
  typename Codec::Scale scale[kRowsAhead];
  float sum[kRowsAhead];
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < kRowsAhead; ++j) {
    const std::uint64_t i = kWarp * (row + j) + thread.lane();
    if (i >= a.count) break;
    code[j] = Codec::load(payload, i);
    scale[j] = Codec::load_scale(a.frame + block * Codec::kFormat.scale_bytes);
    if (a.add != 0) sum[j] = static_cast<const float*>(a.out)[i];
    if (++part == parts) {
      part = 0;
      ++block;
    }
  }
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < kRowsAhead; ++j) {
    const std::uint64_t i = kWarp * (row + j) + thread.lane();
    if (i >= a.count) break;
    const float value = Codec::decode(code[j], scale[j]);
    store_value(a.out, a.elements, i, a.add != 0 ? sum[j] + value : value);
  }
}

template <class Codec>
HOLDFAST_DEVICE void decode_blocks(const Thread& thread, const DeviceDecode& a) {
  const std::byte* const payload = a.frame + layout_of<Codec>(a.block, a.count).payload_at(0);
  const std::uint64_t rows = (a.count + kWarp - 1) / kWarp;
  for (std::uint64_t row = kRowsAhead * thread.warp(); row < rows;
       row += kRowsAhead * thread.warps()) {
    decode_rows<Codec>(thread, a, payload, row);
  }
}

// ---- codecs without scales ----

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

HOLDFAST_DEVICE void decode_one(const DeviceDecode& a, std::uint64_t i, float value) {
  if (a.add != 0) value = static_cast<const float*>(a.out)[i] + value;
  store_value(a.out, a.elements, i, value);
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

using Int8 = Affine<8, Grid::kSymmetric, Rounding::kNearest>;
using Int8Stochastic = Affine<8, Grid::kSymmetric, Rounding::kStochastic>;
using Int8MinMax = Affine<8, Grid::kMinMax, Rounding::kNearest>;
using Int8MinMaxStochastic = Affine<8, Grid::kMinMax, Rounding::kStochastic>;
using Int4 = Affine<4, Grid::kSymmetric, Rounding::kNearest>;
using Int4Stochastic = Affine<4, Grid::kSymmetric, Rounding::kStochastic>;
using Int4MinMax = Affine<4, Grid::kMinMax, Rounding::kNearest>;
using Int4MinMaxStochastic = Affine<4, Grid::kMinMax, Rounding::kStochastic>;
using Rms = Onebit<SignScale::kRms>;
using L1 = Onebit<SignScale::kL1>;
using E4M3 = Fp8Format<4, 3>;
using E5M2 = Fp8Format<5, 2>;

}  // namespace
}  // namespace holdfast::compress

namespace holdfast {

// The kernels' names spell the codec and its options, exactly as compress/device/codec.cpp builds
// them.
#define ENCODE(KERNEL, name, Codec) \
  KERNEL(holdfast_encode_##name, compress::encode_blocks<compress::Codec>)
#define DECODE(KERNEL, name, Codec) \
  KERNEL(holdfast_decode_##name, compress::decode_blocks<compress::Codec>)
#define HALVES(KERNEL, name, As)                                               \
  KERNEL(holdfast_encode_##name, compress::encode_halves<compress::As, false>) \
  KERNEL(holdfast_decode_##name, compress::decode_halves<compress::As>)
// clang-format off
#define CODEC_KERNELS(KERNEL)                                                            \
  HALVES(KERNEL, bf16, Bf16)                                                             \
  KERNEL(holdfast_encode_bf16_stochastic, compress::encode_halves<compress::Bf16, true>) \
  HALVES(KERNEL, fp16, Fp16)                                                             \
  ENCODE(KERNEL, fp8_e4m3, E4M3)                                                         \
  DECODE(KERNEL, fp8_e4m3, E4M3)                                                         \
  ENCODE(KERNEL, fp8_e5m2, E5M2)                                                         \
  DECODE(KERNEL, fp8_e5m2, E5M2)                                                         \
  ENCODE(KERNEL, int8, Int8)                                                             \
  ENCODE(KERNEL, int8_stochastic, Int8Stochastic)                                        \
  ENCODE(KERNEL, int8_minmax, Int8MinMax)                                                \
  ENCODE(KERNEL, int8_minmax_stochastic, Int8MinMaxStochastic)                           \
  DECODE(KERNEL, int8, Int8)                                                             \
  DECODE(KERNEL, int8_minmax, Int8MinMax)                                                \
  ENCODE(KERNEL, int4, Int4)                                                             \
  ENCODE(KERNEL, int4_stochastic, Int4Stochastic)                                        \
  ENCODE(KERNEL, int4_minmax, Int4MinMax)                                                \
  ENCODE(KERNEL, int4_minmax_stochastic, Int4MinMaxStochastic)                           \
  DECODE(KERNEL, int4, Int4)                                                             \
  DECODE(KERNEL, int4_minmax, Int4MinMax)                                                \
  ENCODE(KERNEL, onebit_rms, Rms)                                                        \
  ENCODE(KERNEL, onebit_l1, L1)                                                          \
  DECODE(KERNEL, onebit, Rms)
// clang-format on

HOLDFAST_KERNELS(block_codec, CODEC_KERNELS)

}  // namespace holdfast
