// Frames of the codecs with scales, made on the device. A warp reads a block once, at any
// alignment, and keeps it in registers; the blocks that are usual have code of their own.
#pragma once

#include "compress/block_layout.h"
#include "compress/device/codec.h"
#include "compress/device/formats.h"
#include "compress/device/quads.h"
#include "compress/device/values.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

// The rounding's key of element `i`: almost always the first run's, which is at hand.
template <class Codec>
struct Keys {
  std::uint64_t first;
  HOLDFAST_DEVICE explicit Keys(const DeviceEncode& a)
      : first(Codec::kByChance ? key_of(a.key, 0) : 0) {}
  HOLDFAST_DEVICE std::uint64_t at(const DeviceEncode& a, std::uint64_t i) const {
    return !Codec::kByChance || i >> 32 == 0 ? first : key_at(a, i);
  }
};

HOLDFAST_DEVICE LaneValues hold(const Team& team, const DeviceEncode& a, std::uint64_t number) {
  const std::uint64_t at = number * a.block;
  LaneValues held;
  held.parts = a.block / kWarp;
  const std::uint64_t left = a.count - at;
  held.live = left < a.block ? static_cast<std::uint32_t>(left) : a.block;
  const std::uint32_t lane = team.lane();
  for_parts(held, [&](std::uint32_t j) {
    held.value[j] = held.has(j, lane) ? encoded_value(a, at + kWarp * j + lane) : 0.0F;
  });
  return held;
}

template <class Codec>
HOLDFAST_DEVICE void encode_block(const Team& team, const DeviceEncode& a, std::byte* payload,
                                  std::uint64_t number, const LaneValues& held,
                                  const Keys<Codec>& keys) {
  const std::uint64_t at = number * a.block;
  const std::uint32_t lane = team.lane();
  const auto scale = Codec::scale_of(team, held);
  if (lane == 0) Codec::store_scale(a.frame + number * Codec::kFormat.scale_bytes, scale);
  const std::uint64_t key = keys.at(a, at);
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

// Any block, of any length: from block `from` on.
template <class Codec>
HOLDFAST_DEVICE void encode_any(const Team& team, const DeviceEncode& a, std::uint64_t from) {
  const BlockLayout layout = layout_of<Codec>(a.block, a.count);
  const std::uint64_t blocks = (a.count + a.block - 1) / a.block;
  const Keys<Codec> keys(a);
  for (std::uint64_t b = from + team.warp(); b < blocks; b += team.warps()) {
    std::byte* const payload = a.frame + layout.payload_at(b * a.block);
    encode_block<Codec>(team, a, payload, b, hold(team, a, b), keys);
  }
}

// Rows of 32 elements, of which a lane gets one each.
HOLDFAST_DEVICE void load_rows(const DeviceEncode& a, std::uint64_t first, std::uint32_t rows,
                               float* value) {
  if (a.elements == DeviceElements::kF32 && fits(a.input, 4)) {
    HOLDFAST_UNROLL
    for (std::uint32_t j = 0; j < kMostParts; ++j) {
      if (j < rows) value[j] = static_cast<const float*>(a.input)[first + kWarp * j];
    }
  } else {
    HOLDFAST_UNROLL
    for (std::uint32_t j = 0; j < kMostParts; ++j) {
      if (j < rows) value[j] = load_value(a.input, a.elements, first + kWarp * j);
    }
  }
  if (a.residual == nullptr) return;
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < kMostParts; ++j) {
    if (j < rows) value[j] = add(value[j], a.residual[first + kWarp * j]);
  }
}

// Whole blocks of kParts rows. A warp reads as many as its registers hold before it writes the
// first.
template <class Codec, std::uint32_t kParts>
HOLDFAST_DEVICE void encode_rows(const Team& team, const DeviceEncode& a, std::uint64_t blocks) {
  constexpr std::uint32_t kGroup = kMostParts / kParts;
  const BlockLayout layout = layout_of<Codec>(a.block, a.count);
  const Keys<Codec> keys(a);
  for (std::uint64_t b = kGroup * team.warp(); b < blocks; b += kGroup * team.warps()) {
    const std::uint64_t group = blocks - b < kGroup ? blocks - b : kGroup;
    float value[kMostParts] = {};
    load_rows(a, b * a.block + team.lane(), static_cast<std::uint32_t>(group) * kParts, value);
    HOLDFAST_UNROLL
    for (std::uint32_t g = 0; g < kGroup; ++g) {
      if (g >= group) break;
      LaneValues held;
      held.parts = kParts;
      held.live = kParts * kWarp;
      for_parts(held, [&](std::uint32_t j) { held.value[j] = value[kParts * g + j]; });
      std::byte* const payload = a.frame + layout.payload_at((b + g) * a.block);
      encode_block<Codec>(team, a, payload, b + g, held, keys);
    }
  }
}

inline constexpr std::uint32_t kQuadBlock = kQuad * kWarp;

// A whole block whose values are in `quads`, four neighbours to a lane.
template <class Codec, std::uint32_t kQuads>
HOLDFAST_DEVICE void encode_quads(const Team& team, const DeviceEncode& a, std::byte* payload,
                                  std::uint64_t number, const Quad* quads, const Keys<Codec>& keys,
                                  bool is_residual_aligned) {
  constexpr std::uint32_t kBits = Codec::kFormat.bits;
  LaneValues held;
  held.parts = kQuads * kQuad;
  held.live = kQuads * kQuadBlock;
  for_parts(held, [&](std::uint32_t j) { held.value[j] = quads[j / kQuad].value[j % kQuad]; });
  const std::uint64_t at = number * a.block;
  const auto scale = Codec::scale_of(team, held);
  if (team.lane() == 0) Codec::store_scale(a.frame + number * Codec::kFormat.scale_bytes, scale);
  const std::uint64_t key = keys.at(a, at);
  const bool is_aligned = fits(payload, kCodesBytes<kBits>);
  HOLDFAST_UNROLL
  for (std::uint32_t q = 0; q < kQuads; ++q) {
    const std::uint64_t i = at + kQuadBlock * q + kQuad * team.lane();
    std::uint32_t codes = 0;
    Quad error{};
    if (scale.finite) {
      HOLDFAST_UNROLL
      for (std::uint32_t k = 0; k < kQuad; ++k) {
        const float value = quads[q].value[k];
        const std::uint32_t code = Codec::encode(value, scale, i + k, key);
        codes |= (code & ((1U << kBits) - 1)) << (kBits * k);
        error.value[k] = value - Codec::decode(code, scale);
      }
    }
    store_codes<kBits>(payload, i, codes, is_aligned);
    if (a.residual != nullptr) store_wide(a.residual, i, error, is_residual_aligned);
  }
}

HOLDFAST_DEVICE Quad sum_of(const Quad& values, const RawQuad& residual) {
  Quad sum;
  HOLDFAST_UNROLL
  for (std::uint32_t k = 0; k < kQuad; ++k) {
    sum.value[k] = add(values.value[k], as_float(residual.word[k]));
  }
  return sum;
}

// Whole blocks of kQuads * 128 elements.
template <class Codec, std::uint32_t kQuads>
HOLDFAST_DEVICE void encode_whole(const Team& team, const DeviceEncode& a, std::uint64_t blocks) {
  constexpr std::uint32_t kGroup = kQuadsAhead / kQuads;
  std::byte* const payload = a.frame + layout_of<Codec>(a.block, a.count).payload_at(0);
  const QuadsOf input(a.input, a.elements);
  const bool is_residual_aligned = fits(a.residual, 16);
  const Keys<Codec> keys(a);
  for (std::uint64_t b = kGroup * team.warp(); b < blocks; b += kGroup * team.warps()) {
    const std::uint64_t first = b * a.block + kQuad * team.lane();
    const std::uint64_t groups = blocks - b < kGroup ? blocks - b : kGroup;
    const auto quads = static_cast<std::uint32_t>(groups) * kQuads;
    RawQuad raw[kQuadsAhead] = {};
    HOLDFAST_UNROLL
    for (std::uint32_t q = 0; q < kQuadsAhead; ++q) {
      if (q < quads) raw[q] = input.load(first + kQuadBlock * q);
    }
    Quad held[kQuadsAhead];
    if (a.residual == nullptr) {
      HOLDFAST_UNROLL
      for (std::uint32_t q = 0; q < kQuadsAhead; ++q) held[q] = input.widen(raw[q]);
    } else {
      RawQuad fed_back[kQuadsAhead] = {};
      HOLDFAST_UNROLL
      for (std::uint32_t q = 0; q < kQuadsAhead; ++q) {
        if (q >= quads) break;
        fed_back[q] = load_wide(a.residual, first + kQuadBlock * q, is_residual_aligned);
      }
      HOLDFAST_UNROLL
      for (std::uint32_t q = 0; q < kQuadsAhead; ++q) {
        held[q] = sum_of(input.widen(raw[q]), fed_back[q]);
      }
    }
    HOLDFAST_UNROLL
    for (std::uint32_t g = 0; g < kGroup; ++g) {
      if (g >= groups) break;
      encode_quads<Codec, kQuads>(team, a, payload, b + g, held + kQuads * g, keys,
                                  is_residual_aligned);
    }
  }
}

// The most usual blocks have code of their own.
template <class Codec>
HOLDFAST_DEVICE void encode_blocks(const Team& team, const DeviceEncode& a) {
  std::uint64_t whole = a.count / a.block;
  if (a.block == kQuadBlock) {
    if constexpr (Codec::kAnyOrder) {
      encode_whole<Codec, 1>(team, a, whole);
    } else {
      encode_rows<Codec, kQuad>(team, a, whole);
    }
  } else if (a.block == 4 * kQuadBlock) {
    if constexpr (Codec::kAnyOrder) {
      encode_whole<Codec, 4>(team, a, whole);
    } else {
      encode_rows<Codec, 4 * kQuad>(team, a, whole);
    }
  } else {
    whole = 0;
  }
  encode_any<Codec>(team, a, whole);
}

}  // namespace
}  // namespace holdfast::compress
