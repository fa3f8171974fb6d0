#include "device/state_hash.h"

#include "base/check.h"
#include "device/xxh3.h"

namespace holdfast::device {
namespace {

const KernelRow& row(std::string_view name) {
  const KernelRow* found = find_kernel(name);
  CHECK(found != nullptr);
  return *found;
}

Hash128 long_hash(std::span<const std::byte> bytes) {
  const std::uint64_t blocks = xxh3::whole_blocks(bytes.size());
  std::uint64_t sums[kHashLanes];
  for (std::uint32_t lane = 0; lane < kHashLanes; ++lane) {
    std::uint64_t sum = xxh3::first_sum(lane);
    for (std::uint64_t b = 0; b < blocks; ++b) {
      const std::byte* const block = bytes.data() + b * kHashBlockBytes;
      for (std::uint32_t n = 0; n < kHashBlockBytes / kStripeBytes; ++n) {
        sum += xxh3::stripe_weight(block + kStripeBytes * n, lane, 8 * n);
      }
      sum = xxh3::scrambled(sum, lane);
    }
    sums[lane] = xxh3::with_rest(sum, bytes.data(), bytes.size(), lane);
  }
  return xxh3::of_sums(sums, bytes.size());
}

}  // namespace

const KernelRow& hash_blocks_kernel() { return row("holdfast_hash_blocks"); }
const KernelRow& hash_chunks_kernel() { return row("holdfast_hash_chunks"); }

std::uint64_t most_hash_blocks(std::uint64_t longest_chunk_bytes) {
  return xxh3::whole_blocks(longest_chunk_bytes);
}

std::size_t hash_workspace_bytes(std::uint64_t chunks, std::uint64_t blocks) {
  return chunks * blocks * kHashLanes * sizeof(std::uint64_t);
}

DigestBytes reference_hash(std::span<const std::byte> bytes) {
  const Hash128 digest =
      bytes.size() > kShortInput ? long_hash(bytes) : xxh3::of_short(bytes.data(), bytes.size());
  DigestBytes out;
  store_loose(out.data(), xxh3::swapped(digest.high));
  store_loose(out.data() + 8, xxh3::swapped(digest.low));
  return out;
}

}  // namespace holdfast::device
