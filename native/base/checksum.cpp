#include "base/checksum.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace holdfast {
namespace {

constexpr std::uint32_t kCastagnoli = 0x82f63b78U;  // reflected
constexpr std::size_t kStreams = 4;

// kTables[j][b]: byte b, followed by j zero bytes; eight bytes then take eight look-ups (Sarwate's
// table, "slicing by 8").
constexpr auto make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    tables[0][b] = crc;
  }
  for (std::size_t j = 1; j < 8; ++j) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables[j - 1][b];
      tables[j][b] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = make_tables();

std::uint64_t word_at(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

struct Tables {
  static std::uint32_t step(std::uint32_t crc, std::uint64_t word) {
    word ^= crc;
    std::uint32_t out = 0;
    for (std::size_t j = 0; j < 8; ++j) out ^= kTables[7 - j][(word >> (8 * j)) & 0xff];
    return out;
  }
};

template <class Crc>
[[gnu::always_inline]] inline std::uint32_t run(std::span<const std::byte> bytes,
                                                std::uint32_t seed) {
  std::array<std::uint32_t, kStreams> crc{seed, ~seed, seed ^ 0x5a5a5a5aU, seed ^ 0xa5a5a5a5U};
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8 * kStreams; left -= 8 * kStreams, at += 8 * kStreams) {
    for (std::size_t s = 0; s < kStreams; ++s) crc[s] = Crc::step(crc[s], word_at(at + 8 * s));
  }
  std::array<std::byte, 8 * kStreams> rest{};
  if (left > 0) std::memcpy(rest.data(), at, left);
  for (std::size_t s = 0; s < kStreams; ++s) {
    crc[s] = Crc::step(crc[s], word_at(rest.data() + 8 * s));
  }
  // The size distinguishes zeros at the end from padding.
  std::uint32_t all = Crc::step(~0U, bytes.size());
  for (const std::uint32_t each : crc) all = Crc::step(all, each);
  return ~all;
}

#if defined(__x86_64__)
struct CrcInstruction {
  [[gnu::target("sse4.2")]] static std::uint32_t step(std::uint32_t crc, std::uint64_t word) {
    return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
  }
};
#endif

}  // namespace

std::uint32_t reference_checksum(std::span<const std::byte> bytes, std::uint32_t seed) {
  return run<Tables>(bytes, seed);
}

#if defined(__x86_64__)
namespace {
[[gnu::target("sse4.2")]] std::uint32_t fast_checksum(std::span<const std::byte> bytes,
                                                      std::uint32_t seed) {
  return run<CrcInstruction>(bytes, seed);
}
}  // namespace

std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t seed) {
  return __builtin_cpu_supports("sse4.2") ? fast_checksum(bytes, seed)
                                          : reference_checksum(bytes, seed);
}
#else
std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t seed) {
  return reference_checksum(bytes, seed);
}
#endif

}  // namespace holdfast
