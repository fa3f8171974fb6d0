// Hashes of chunks of state, where the state is: 16 bytes to a chunk, as xxhash.xxh3_128_digest()
// has them, so that ranks with and without a device compare the same ones.
// Why: docs/decisions/0074-the-state-hash-stays-xxh3.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "device/kernel.h"

namespace holdfast::device {

inline constexpr std::size_t kDigestBytes = 16;
using DigestBytes = std::array<std::byte, kDigestBytes>;

struct HashChunk {
  const std::byte* data;  // any address
  std::uint64_t bytes;    // any number
};

// Of both kernels, which run one after the other on a stream.
struct HashArgument {
  const HashChunk* chunks;
  std::uint64_t count;
  std::uint64_t blocks;  // most_hash_blocks() of the longest chunk, or more
  std::uint64_t* sums;   // hash_workspace_bytes() of scratch memory
  std::byte* digests;    // kDigestBytes to a chunk
};

// holdfast_hash_blocks: a warp to each 1024 bytes, of all chunks at once.
const KernelRow& hash_blocks_kernel();
// holdfast_hash_chunks: a warp to a chunk, over its blocks' sums.
const KernelRow& hash_chunks_kernel();

std::uint64_t most_hash_blocks(std::uint64_t longest_chunk_bytes);
std::size_t hash_workspace_bytes(std::uint64_t chunks, std::uint64_t blocks);

// The CPU's reference, a byte order and all.
DigestBytes reference_hash(std::span<const std::byte> bytes);

}  // namespace holdfast::device
