// Block layout: where the parts of a block codec's frame are, and the keys of its stochastic
// rounding. The encoders of the CPU and of devices must agree on both. The functions are constexpr,
// so that device code may call them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compress/codec.h"

namespace holdfast::compress {

struct Format {
  std::uint32_t scale_bytes;  // per block
  std::uint32_t bits;         // per element
};

Format format_of(CodecId id, const CodecOptions& options);

// Elements that are widened at a time: 32 KiB of f32 stay in the L1 cache beside their codes.
inline constexpr std::uint32_t kRunElements = 8192;

struct BlockLayout {
  std::uint32_t block;
  Format format;
  std::uint64_t count;

  constexpr std::size_t scales_at(std::uint64_t element) const {
    return element / block * format.scale_bytes;
  }
  constexpr std::size_t payload_at(std::uint64_t element) const {
    return (count + block - 1) / block * format.scale_bytes + element * format.bits / 8;
  }
  constexpr std::size_t bytes(std::uint64_t elements) const {
    return (elements * format.bits + 7) / 8;
  }
  constexpr std::size_t size() const { return payload_at(0) + bytes(count); }
  constexpr std::uint64_t run() const { return kRunElements / block * block; }
};

constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;  // SplitMix64 (Steele, Lea and Flood, 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t key_base(const RoundingKey& key);
// RoundingKey of the run whose first element is `first`: draws see only the lower half of an
// element's number.
constexpr std::uint64_t key_of(std::uint64_t base, std::uint64_t first) {
  return mix(base ^ (first >> 32));
}

}  // namespace holdfast::compress
