// bf16 and fp16: each element is encoded by itself, without scales.
#pragma once

#include "compress/loops/block_values.h"
#include "compress/loops/kernels.h"
#include "compress/loops/lanes.h"

namespace holdfast::compress {
namespace {

template <bool kStochastic>
struct AsBf16 {
  // Rounds to nearest even; when stochastic, the part cut off is the probability of rounding up. A
  // NaN becomes a quiet one.
  static Words narrow(Floats value, const EncodeRun& run, std::uint64_t i) {
    const Words bits = bits_of(value);
    Words rest;
    if constexpr (kStochastic) {
      const Words lane = lane_numbers(run.first + static_cast<std::uint32_t>(i));
      rest = draw(lane, run.key_low, run.key_high) >> 16;
    } else {
      rest = ((bits >> 16) & words(1)) + words(0x7fff);
    }
    const Words size = magnitude(value);
    Words sum = bits + rest;
    // Random bits must not turn an infinity into a NaN; half of the last place cannot.
    if constexpr (kStochastic) sum = pick_less(size, words(kInfinityBits), sum, bits);
    return pick_less(words(kInfinityBits), size, (bits >> 16) | words(0x40), sum >> 16);
  }
  static Floats widen(Words x) { return floats_of(x << 16); }
};

struct AsFp16 {
  static Words narrow(Floats value, const EncodeRun&, std::uint64_t) { return half_bits(value); }
  static Floats widen(Words x) { return from_half_bits(x); }
};

template <class As, bool kResidual>
void encode_halves_as(EncodeRun run) {
  for (std::uint64_t i = 0; i < run.blocks * run.block; i += kLanes) {
    const Floats value = value_at<kResidual>(run, i);
    const Words code = As::narrow(value, run, i);
    store_halfwords(run.payload + 2 * i, code);
    if constexpr (kResidual) store(run.residual + i, residual_of(value, As::widen(code)));
  }
}

template <class As>
void encode_halves(const EncodeRun& run) {
  if (run.residual != nullptr) {
    encode_halves_as<As, true>(run);
  } else {
    encode_halves_as<As, false>(run);
  }
}

template <class As, bool kAdd>
void decode_halves(DecodeRun run) {
  for (std::uint64_t i = 0; i < run.blocks * run.block; i += kLanes) {
    Floats value = As::widen(load_halfwords(run.payload + 2 * i));
    if constexpr (kAdd) value = load(run.out + i) + value;
    store(run.out + i, value);
  }
}

template <class As>
BlockKernels half_kernels() {
  return {encode_halves<As>, decode_halves<As, false>, decode_halves<As, true>};
}

}  // namespace
}  // namespace holdfast::compress
