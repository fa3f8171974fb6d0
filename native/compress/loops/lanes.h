// Sixteen lanes of f32 or u32: the vector that every block codec is written with. Its versions have
// the same names and give the same bits: plain loops (the reference and unknown processors), AVX2,
// AVX-512, and NEON. Each instruction level includes its own version; everything has internal
// linkage, or the linker could pick a copy compiled for a newer processor.
// Why: docs/decisions/0043-sixteen-lanes.md
#pragma once

#include <cstdint>

#if !defined(HOLDFAST_PLAIN_LANES) && defined(__AVX512F__) && defined(__AVX512BW__) && \
    defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "compress/loops/lanes_avx512.h"
#elif !defined(HOLDFAST_PLAIN_LANES) && defined(__AVX2__) && defined(__F16C__)
#include "compress/loops/lanes_avx2.h"
#elif defined(HOLDFAST_NEON)
#include "compress/loops/lanes_neon.h"
#else
#include "compress/loops/lanes_plain.h"
#endif

namespace holdfast::compress {
namespace {

inline constexpr std::uint64_t kLanes = 16;
inline constexpr std::uint32_t kMagnitudeBits = 0x7fffffffU;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000U;
inline constexpr std::uint32_t kNanBits = 0x7fc00000U;

inline Words magnitude(Floats x) { return bits_of(x) & words(kMagnitudeBits); }

// 32 bits that look random, a function of key and lane alone (two rounds of multiply and shift, as
// in Wellons' survey of integer hashes); the same on every machine.
inline Words draw(Words lane, std::uint32_t key_low, std::uint32_t key_high) {
  Words x = lane * words(0x9e3779b9U) + words(key_low);
  x = (x ^ (x >> 16)) * words(0x7feb352dU);
  x = x ^ words(key_high);
  x = (x ^ (x >> 15)) * words(0x846ca68bU);
  return x ^ (x >> 16);
}

// The residual is zero where `sent` is not finite: an infinite error would be fed back for ever.
inline Floats residual_of(Floats value, Floats sent) {
  const Words error = bits_of(value - sent);
  return floats_of(pick_less(magnitude(sent), words(kInfinityBits), error, words(0)));
}

}  // namespace
}  // namespace holdfast::compress
