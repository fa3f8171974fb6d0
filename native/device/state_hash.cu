// XXH3 of many chunks at once (xxh3.h describes the hash). The first pass sums all blocks and reads
// the memory once, at full bandwidth. The second does, for each chunk, the serial part over the
// sums alone, a sixteenth of the bytes.
#include "device/kernel_sets.h"
#include "device/memory.h"
#include "device/simt.h"
#include "device/state_hash.h"
#include "device/xxh3.h"

namespace holdfast::device {
namespace {

using xxh3::Word;

struct WordPair {
  Word even;
  Word odd;
};

HOLDFAST_DEVICE Word word_of(const Vector& x, int i) {
  return Word{x.word[2 * i + 1]} << 32 | x.word[2 * i];
}

// The contribution of sixteen bytes: two words, each with its secret, plus its neighbour word.
HOLDFAST_DEVICE WordPair pair_weight(const Vector& x, const WordPair& secret) {
  const Word even = word_of(x, 0);
  const Word odd = word_of(x, 1);
  return {xxh3::weight(even, secret.even) + odd, xxh3::weight(odd, secret.odd) + even};
}

// The secret of a vector, which is a quarter of a stripe: lanes whose indices differ by four have
// the same words of different stripes.
HOLDFAST_DEVICE WordPair secret_of(std::uint32_t vector) {
  const std::uint32_t byte = 8 * (vector / 4) + 16 * (vector % 4);
  return {xxh3::secret64(byte), xxh3::secret64(byte + 8)};
}

HOLDFAST_DEVICE void hash_blocks(const Team& team, const HashArgument& a) {
  const std::uint32_t lane = team.lane();
  const WordPair first = secret_of(lane);
  const WordPair second = secret_of(lane + kWarp);
  const std::uint64_t all = a.count * a.blocks;
  for (std::uint64_t i = team.warp(); i < all; i += team.warps()) {
    const HashChunk chunk = a.chunks[i / a.blocks];
    const std::uint64_t block = i % a.blocks;
    if (block >= xxh3::whole_blocks(chunk.bytes)) continue;
    const Extent extent{chunk.data, chunk.data + chunk.bytes};
    const std::byte* const at = chunk.data + block * kHashBlockBytes + kVectorBytes * lane;
    const Vector x = load_any(at, extent);
    const Vector y = load_any(at + kVectorBytes * kWarp, extent);
    const WordPair lower = pair_weight(x, first);
    const WordPair upper = pair_weight(y, second);
    WordPair sum{lower.even + upper.even, lower.odd + upper.odd};
    HOLDFAST_UNROLL
    for (std::uint32_t bits = 4; bits < kWarp; bits *= 2) {
      sum.even += team.swap(sum.even, bits);
      sum.odd += team.swap(sum.odd, bits);
    }
    if (lane >= kHashLanes / 2) continue;
    std::uint64_t* const out = a.sums + i * kHashLanes + 2 * lane;
    out[0] = sum.even;
    out[1] = sum.odd;
  }
}

// Number of blocks whose sums are loaded ahead of the serial chain.
inline constexpr std::uint32_t kBlocksAhead = 8;

HOLDFAST_DEVICE Word chained(Word sum, const std::uint64_t* sums, std::uint64_t blocks,
                             std::uint32_t lane) {
  for (std::uint64_t b = 0; b < blocks; b += kBlocksAhead) {
    Word next[kBlocksAhead];
    HOLDFAST_UNROLL
    for (std::uint32_t j = 0; j < kBlocksAhead; ++j) {
      next[j] = b + j < blocks ? sums[(b + j) * kHashLanes + lane] : 0;
    }
    HOLDFAST_UNROLL
    for (std::uint32_t j = 0; j < kBlocksAhead; ++j) {
      if (b + j < blocks) sum = xxh3::scrambled(sum + next[j], lane);
    }
  }
  return sum;
}

// A warp holds four copies of the eight sums; only lane 0 writes the digest.
HOLDFAST_DEVICE void hash_chunks(const Team& team, const HashArgument& a) {
  const std::uint32_t lane = team.lane() % kHashLanes;
  for (std::uint64_t i = team.warp(); i < a.count; i += team.warps()) {
    const HashChunk chunk = a.chunks[i];
    Hash128 digest;
    if (chunk.bytes > kShortInput) {
      Word sum = chained(xxh3::first_sum(lane), a.sums + i * a.blocks * kHashLanes,
                         xxh3::whole_blocks(chunk.bytes), lane);
      sum = xxh3::with_rest(sum, chunk.data, chunk.bytes, lane);
      Word sums[kHashLanes];
      HOLDFAST_UNROLL
      for (std::uint32_t j = 0; j < kHashLanes; ++j) sums[j] = team.shuffle(sum, j);
      digest = xxh3::of_sums(sums, chunk.bytes);
    } else {
      digest = xxh3::of_short(chunk.data, chunk.bytes);
    }
    if (team.lane() != 0) continue;
    store_loose(a.digests + kDigestBytes * i, xxh3::swapped(digest.high));
    store_loose(a.digests + kDigestBytes * i + 8, xxh3::swapped(digest.low));
  }
}

}  // namespace
}  // namespace holdfast::device

namespace holdfast {

#define HASH_KERNELS(KERNEL)                        \
  KERNEL(holdfast_hash_blocks, device::hash_blocks) \
  KERNEL(holdfast_hash_chunks, device::hash_chunks)

HOLDFAST_KERNELS(state_hash, HASH_KERNELS)

}  // namespace holdfast
