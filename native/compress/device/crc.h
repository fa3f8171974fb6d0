// The checksum of base/checksum.h computed by a warp: four lanes take its four streams, word by
// word.
#pragma once

#include <cstdint>

#include "device/memory.h"
#include "device/simt.h"

namespace holdfast::compress {
namespace {

inline constexpr std::uint32_t kCrcStreams = 4;

struct CrcTables {
  std::uint32_t of[8][256];
};

// of[j][b]: the CRC of byte b followed by j zero bytes, as in base/checksum.cpp.
constexpr CrcTables make_crc_tables() {
  constexpr std::uint32_t kCastagnoli = 0x82f63b78U;
  CrcTables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kCastagnoli : 0);
    tables.of[0][b] = crc;
  }
  for (std::uint32_t j = 1; j < 8; ++j) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables.of[j - 1][b];
      tables.of[j][b] = (before >> 8) ^ tables.of[0][before & 0xffU];
    }
  }
  return tables;
}
HOLDFAST_CONSTANT CrcTables kCrcTables = make_crc_tables();

HOLDFAST_DEVICE std::uint32_t crc_step(std::uint32_t crc, std::uint64_t word) {
  word ^= crc;
  std::uint32_t out = 0;
  HOLDFAST_UNROLL
  for (std::uint32_t j = 0; j < 8; ++j) out ^= kCrcTables.of[7 - j][(word >> (8 * j)) & 0xffU];
  return out;
}

// Loads eight bytes from any address; bytes after the first `left` are zeros.
HOLDFAST_DEVICE std::uint64_t crc_word(const std::byte* at, std::uint64_t left) {
  if (left >= 8) return device::load_loose<std::uint64_t>(at);
  std::uint64_t word = 0;
  for (std::uint64_t i = 0; i < left; ++i) {
    word |= static_cast<std::uint64_t>(at[i]) << (8 * i);
  }
  return word;
}

// All lanes of the warp must call it, and all get the result.
HOLDFAST_DEVICE std::uint32_t checksum_of(const device::Team& team, const std::byte* bytes,
                                          std::uint64_t size, std::uint32_t seed) {
  constexpr std::uint64_t kRow = 8 * kCrcStreams;
  const std::uint32_t stream = team.lane() % kCrcStreams;
  const std::uint32_t seeds[kCrcStreams] = {seed, ~seed, seed ^ 0x5a5a5a5aU, seed ^ 0xa5a5a5a5U};
  std::uint32_t crc = seeds[stream];
  if (team.lane() < kCrcStreams) {
    std::uint64_t at = 8 * stream;
    for (; at - 8 * stream + kRow <= size; at += kRow) {
      crc = crc_step(crc, device::load_loose<std::uint64_t>(bytes + at));
    }
    crc = crc_step(crc, crc_word(bytes + at, at < size ? size - at : 0));
  }
  std::uint32_t all = crc_step(~0U, size);
  HOLDFAST_UNROLL
  for (std::uint32_t s = 0; s < kCrcStreams; ++s) all = crc_step(all, team.shuffle(crc, s));
  return ~all;
}

}  // namespace
}  // namespace holdfast::compress
