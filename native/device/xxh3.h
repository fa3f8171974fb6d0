// XXH3, 128 bits, without a seed: the hash that `sync` compares chunks of state by
// (comm/state/chunks.py takes it from the xxhash package). Written from its definition in the XXH3
// algorithm overview, github.com/Cyan4973/xxHash. Long inputs are summed in independent blocks of
// 1024 bytes; only the step between blocks is serial, so a device sums all blocks at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/memory.h"
#include "device/simt.h"

namespace holdfast::device {

inline constexpr std::uint32_t kStripeBytes = 64;
inline constexpr std::uint32_t kHashBlockBytes = 1024;
inline constexpr std::uint32_t kHashLanes = 8;
// Inputs up to this size are short, and have formulas of their own.
inline constexpr std::uint64_t kShortInput = 240;

struct Hash128 {
  std::uint64_t low;
  std::uint64_t high;
};

namespace xxh3 {

using Word = std::uint64_t;

// The secret of the definition, as little-endian words.
HOLDFAST_CONSTANT Word kSecret[24] = {
    0xbe4ba423396cfeb8ULL, 0x1cad21f72c81017cULL, 0xdb979083e96dd4deULL, 0x1f67b3b7a4a44072ULL,
    0x78e5c0cc4ee679cbULL, 0x2172ffcc7dd05a82ULL, 0x8e2443f7744608b8ULL, 0x4c263a81e69035e0ULL,
    0xcb00c391bb52283cULL, 0xa32e531b8b65d088ULL, 0x4ef90da297486471ULL, 0xd8acdea946ef1938ULL,
    0x3f349ce33f76faa8ULL, 0x1d4f0bc7c7bbdcf9ULL, 0x3159b4cd4be0518aULL, 0x647378d9c97e9fc8ULL,
    0xc3ebd33483acc5eaULL, 0xeb6313faffa081c5ULL, 0x49daf0b751dd0d17ULL, 0x9e68d429265516d3ULL,
    0xfca1477d58be162bULL, 0xce31d07ad1b8f88fULL, 0x280416958f3acb45ULL, 0x7e404bbbcafbd7afULL};
inline constexpr std::uint32_t kSecretBytes = 192;
inline constexpr std::uint32_t kShortSecretBytes = 136;

inline constexpr Word kPrime32_1 = 0x9E3779B1U;
inline constexpr Word kPrime32_2 = 0x85EBCA77U;
inline constexpr Word kPrime32_3 = 0xC2B2AE3DU;
inline constexpr Word kPrime64_1 = 0x9E3779B185EBCA87ULL;
inline constexpr Word kPrime64_2 = 0xC2B2AE3D27D4EB4FULL;
inline constexpr Word kPrime64_3 = 0x165667B19E3779F9ULL;
inline constexpr Word kPrime64_4 = 0x85EBCA77C2B2AE63ULL;
inline constexpr Word kPrime64_5 = 0x27D4EB2F165667C5ULL;
inline constexpr Word kAvalanche = 0x165667919E3779F9ULL;
inline constexpr Word kShortMultiplier = 0x9FB21C651E98DF25ULL;

HOLDFAST_DEVICE Word read64(const std::byte* at) { return load_loose<Word>(at); }
HOLDFAST_DEVICE Word read32(const std::byte* at) { return load_loose<std::uint32_t>(at); }
// Reads the secret at any byte.
HOLDFAST_DEVICE Word secret64(std::uint32_t byte) {
  const std::uint32_t shift = 8 * (byte % 8);
  const Word low = kSecret[byte / 8];
  return shift == 0 ? low : low >> shift | kSecret[byte / 8 + 1] << (64 - shift);
}
HOLDFAST_DEVICE Word secret32(std::uint32_t byte) { return secret64(byte) & 0xffffffffU; }

HOLDFAST_DEVICE Hash128 multiply(Word a, Word b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return {static_cast<Word>(product), static_cast<Word>(product >> 64)};
}
HOLDFAST_DEVICE Word folded(Word a, Word b) {
  const Hash128 product = multiply(a, b);
  return product.low ^ product.high;
}
HOLDFAST_DEVICE Word low_half(Word x) { return x & 0xffffffffU; }

HOLDFAST_DEVICE Word swapped(Word x) {
  x = (x & 0x00ff00ff00ff00ffULL) << 8 | (x >> 8 & 0x00ff00ff00ff00ffULL);
  x = (x & 0x0000ffff0000ffffULL) << 16 | (x >> 16 & 0x0000ffff0000ffffULL);
  return x << 32 | x >> 32;
}

HOLDFAST_DEVICE Word avalanche(Word x) {
  x = (x ^ x >> 37) * kAvalanche;
  return x ^ x >> 32;
}
// The avalanche of XXH64.
HOLDFAST_DEVICE Word old_avalanche(Word x) {
  x = (x ^ x >> 33) * kPrime64_2;
  x = (x ^ x >> 29) * kPrime64_3;
  return x ^ x >> 32;
}

// ---- short inputs ----

HOLDFAST_DEVICE Hash128 up_to_3(const std::byte* in, Word bytes) {
  const auto at = [&](Word i) { return static_cast<Word>(in[i]); };
  const Word low = at(0) << 16 | at(bytes / 2) << 24 | at(bytes - 1) | bytes << 8;
  const Word turned = swapped(low) >> 32;
  const Word high = low_half(turned << 13 | turned >> 19);
  return {old_avalanche(low ^ secret32(0) ^ secret32(4)),
          old_avalanche(high ^ secret32(8) ^ secret32(12))};
}

HOLDFAST_DEVICE Hash128 up_to_8(const std::byte* in, Word bytes) {
  const Word input = read32(in) | read32(in + bytes - 4) << 32;
  Hash128 x = multiply(input ^ secret64(16) ^ secret64(24), kPrime64_1 + (bytes << 2));
  x.high += x.low << 1;
  x.low ^= x.high >> 3;
  x.low = (x.low ^ x.low >> 35) * kShortMultiplier;
  x.low ^= x.low >> 28;
  x.high = avalanche(x.high);
  return x;
}

HOLDFAST_DEVICE Hash128 up_to_16(const std::byte* in, Word bytes) {
  const Word low = read64(in);
  Word high = read64(in + bytes - 8);
  Hash128 x = multiply(low ^ high ^ secret64(32) ^ secret64(40), kPrime64_1);
  x.low += (bytes - 1) << 54;
  high ^= secret64(48) ^ secret64(56);
  x.high += high + low_half(high) * (kPrime32_2 - 1);
  x.low ^= swapped(x.high);
  Hash128 out = multiply(x.low, kPrime64_2);
  out.high += x.high * kPrime64_2;
  return {avalanche(out.low), avalanche(out.high)};
}

HOLDFAST_DEVICE Word mixed(const std::byte* in, std::uint32_t secret) {
  return folded(read64(in) ^ secret64(secret), read64(in + 8) ^ secret64(secret + 8));
}
HOLDFAST_DEVICE Hash128 mix_pair(Hash128 x, const std::byte* a, const std::byte* b,
                                 std::uint32_t secret) {
  x.low = (x.low + mixed(a, secret)) ^ (read64(b) + read64(b + 8));
  x.high = (x.high + mixed(b, secret + 16)) ^ (read64(a) + read64(a + 8));
  return x;
}
HOLDFAST_DEVICE Hash128 finished(Hash128 x, Word bytes) {
  const Word high = x.low * kPrime64_1 + x.high * kPrime64_4 + bytes * kPrime64_2;
  return {avalanche(x.low + x.high), 0 - avalanche(high)};
}

HOLDFAST_DEVICE Hash128 up_to_128(const std::byte* in, Word bytes) {
  Hash128 x{bytes * kPrime64_1, 0};
  for (auto i = static_cast<std::uint32_t>((bytes - 1) / 32); i > 0; --i) {
    x = mix_pair(x, in + 16 * i, in + bytes - 16 * (i + 1), 32 * i);
  }
  return finished(mix_pair(x, in, in + bytes - 16, 0), bytes);
}

HOLDFAST_DEVICE Hash128 up_to_240(const std::byte* in, Word bytes) {
  Hash128 x{bytes * kPrime64_1, 0};
  for (std::uint32_t i = 0; i < 128; i += 32) x = mix_pair(x, in + i, in + i + 16, i);
  x = {avalanche(x.low), avalanche(x.high)};
  for (std::uint32_t i = 128; i + 32 <= bytes; i += 32) {
    x = mix_pair(x, in + i, in + i + 16, i - 128 + 3);
  }
  // The last pair has its halves swapped.
  const std::byte* const end = in + bytes;
  return finished(mix_pair(x, end - 16, end - 32, kShortSecretBytes - 17 - 16), bytes);
}

HOLDFAST_DEVICE Hash128 of_short(const std::byte* in, Word bytes) {
  if (bytes > 128) return up_to_240(in, bytes);
  if (bytes > 16) return up_to_128(in, bytes);
  if (bytes > 8) return up_to_16(in, bytes);
  if (bytes >= 4) return up_to_8(in, bytes);
  if (bytes > 0) return up_to_3(in, bytes);
  return {old_avalanche(secret64(64) ^ secret64(72)), old_avalanche(secret64(80) ^ secret64(88))};
}

// ---- long inputs: eight sums ----

HOLDFAST_DEVICE Word first_sum(std::uint32_t lane) {
  switch (lane) {
    case 0: return kPrime32_3;
    case 1: return kPrime64_1;
    case 2: return kPrime64_2;
    case 3: return kPrime64_3;
    case 4: return kPrime64_4;
    case 5: return kPrime32_2;
    case 6: return kPrime64_5;
    default: return kPrime32_1;
  }
}

// A word's product for its own lane; the neighbour lane adds the word itself.
HOLDFAST_DEVICE Word weight(Word word, Word secret) {
  const Word key = word ^ secret;
  return low_half(key) * (key >> 32);
}
// A stripe's contribution to one lane, with the secret from byte `secret` on.
HOLDFAST_DEVICE Word stripe_weight(const std::byte* stripe, std::uint32_t lane,
                                   std::uint32_t secret) {
  return weight(read64(stripe + 8 * lane), secret64(secret + 8 * lane)) +
         read64(stripe + 8 * (lane ^ 1U));
}
HOLDFAST_DEVICE Word scrambled(Word sum, std::uint32_t lane) {
  return (sum ^ sum >> 47 ^ secret64(kSecretBytes - kStripeBytes + 8 * lane)) * kPrime32_1;
}
// Number of blocks that are followed by more bytes.
HOLDFAST_DEVICE Word whole_blocks(Word bytes) {
  return bytes > kShortInput ? (bytes - 1) / kHashBlockBytes : 0;
}
// Adds the bytes after the whole blocks to a lane's sum.
HOLDFAST_DEVICE Word with_rest(Word sum, const std::byte* in, Word bytes, std::uint32_t lane) {
  const Word done = whole_blocks(bytes) * kHashBlockBytes;
  const auto stripes = static_cast<std::uint32_t>((bytes - 1 - done) / kStripeBytes);
  for (std::uint32_t n = 0; n < stripes; ++n) {
    sum += stripe_weight(in + done + kStripeBytes * n, lane, 8 * n);
  }
  return sum + stripe_weight(in + bytes - kStripeBytes, lane, kSecretBytes - kStripeBytes - 7);
}

HOLDFAST_DEVICE Word merged(const Word (&sums)[kHashLanes], std::uint32_t secret, Word start) {
  for (std::uint32_t i = 0; i < kHashLanes / 2; ++i) {
    start += folded(sums[2 * i] ^ secret64(secret + 16 * i),
                    sums[2 * i + 1] ^ secret64(secret + 16 * i + 8));
  }
  return avalanche(start);
}
HOLDFAST_DEVICE Hash128 of_sums(const Word (&sums)[kHashLanes], Word bytes) {
  return {merged(sums, 11, bytes * kPrime64_1),
          merged(sums, kSecretBytes - kStripeBytes - 11, ~(bytes * kPrime64_2))};
}

}  // namespace xxh3
}  // namespace holdfast::device
