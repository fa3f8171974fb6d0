// Hashes of chunks of state, made where the state is: 16 bytes per chunk, the same as
// xxhash.xxh3_128_digest(), so that ranks with and without a device compare equal hashes.
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

// Argument of both kernels, which run one after the other on a stream.
struct HashArgument {
  const HashChunk* chunks;
  std::uint64_t count;
  std::uint64_t blocks;  // most_hash_blocks() of the longest chunk, or more
  std::uint64_t* sums;   // hash_workspace_bytes() of scratch memory
  std::byte* digests;    // kDigestBytes per chunk
};

// holdfast_hash_blocks: a warp hashes 1024 bytes; all chunks run at once.
const KernelRow& hash_blocks_kernel();
// holdfast_hash_chunks: a warp combines the block sums of one chunk.
const KernelRow& hash_chunks_kernel();

std::uint64_t most_hash_blocks(std::uint64_t longest_chunk_bytes);
std::size_t hash_workspace_bytes(std::uint64_t chunks, std::uint64_t blocks);

// The CPU's reference, with digests in the same byte order.
DigestBytes reference_hash(std::span<const std::byte> bytes);

}  // namespace holdfast::device
