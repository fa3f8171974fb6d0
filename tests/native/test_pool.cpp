// The memory pool: where memory comes from, who finds it, and what a directory may say.
#include <doctest/doctest.h>

#include <cstring>

#include "comm/transport/pool.h"
#include "sim/random.h"

namespace holdfast::comm {
namespace {

struct Lender {
  MemoryPool pool;
  std::unique_ptr<PoolDirectory> directory = std::make_unique<PoolDirectory>();
};

TEST_CASE("what a peer maps is the memory that was allocated") {
  Lender lender;
  const std::shared_ptr<PeerPool> peer = make_peer_pool();
  std::byte* first = lender.pool.allocate(1000);
  std::byte* second = lender.pool.allocate(2 * kSmallestArena);
  std::memset(first, 1, 1000);
  std::memset(second + 2 * kSmallestArena - 8, 2, 8);
  const PoolPlace one = lender.pool.find(first, 1000, *lender.directory);
  const PoolPlace two = lender.pool.find(second, 2 * kSmallestArena, *lender.directory);
  CHECK(one.arena == 1);
  CHECK(two.arena == 2);
  const std::byte* seen = peer->at(*lender.directory, one, 1000);
  REQUIRE(seen != nullptr);
  CHECK(seen != first);
  CHECK(std::memcmp(seen, first, 1000) == 0);
  const std::byte* far = peer->at(*lender.directory, two, 2 * kSmallestArena);
  REQUIRE(far != nullptr);
  CHECK(far[2 * kSmallestArena - 1] == std::byte{2});
  lender.pool.unlink();
  CHECK(peer->at(*lender.directory, one, 1000) == seen);
  CHECK(make_peer_pool()->at(*lender.directory, one, 1000) == nullptr);
}

TEST_CASE("memory of elsewhere, and more than there is, is not found") {
  Lender lender;
  std::byte other[8] = {};
  std::byte* data = lender.pool.allocate(64);
  CHECK(lender.pool.find(other, 8, *lender.directory).arena == 0);
  CHECK(lender.pool.find(data, kSmallestArena + 1, *lender.directory).arena == 0);
  CHECK(lender.directory->count == 0);
  CHECK(lender.pool.allocate(~0ULL) == nullptr);
}

TEST_CASE("what a directory or a place says is not trusted") {
  Lender lender;
  const PoolPlace place = lender.pool.find(lender.pool.allocate(64), 64, *lender.directory);
  const auto at = [&](std::uint32_t arena, std::uint64_t offset, std::uint64_t bytes) {
    return make_peer_pool()->at(*lender.directory, {arena, offset}, bytes);
  };
  REQUIRE(at(place.arena, place.offset, 64) != nullptr);
  CHECK(at(0, 0, 64) == nullptr);
  CHECK(at(2, 0, 64) == nullptr);
  CHECK(at(kMaxArenas + 1, 0, 64) == nullptr);
  CHECK(at(1, kSmallestArena, 1) == nullptr);
  CHECK(at(1, ~0ULL, 64) == nullptr);
  CHECK(at(1, 0, ~0ULL) == nullptr);
  lender.directory->arenas[0].bytes += 4096;
  CHECK(at(1, 0, 64) == nullptr);
  lender.directory->arenas[0].bytes -= 4096;
  std::memset(lender.directory->arenas[0].name, 'x', sizeof lender.directory->arenas[0].name);
  CHECK(at(1, 0, 64) == nullptr);
}

TEST_CASE("blocks do not overlap, and all memory comes back") {
  MemoryPool pool;
  sim::Random random(1);
  std::vector<std::pair<std::byte*, std::uint64_t>> blocks;
  for (int i = 0; i < 3000; ++i) {
    if (blocks.size() < 50 && random.chance(60)) {
      const std::uint64_t bytes = random.below(2 << 20);
      std::byte* data = pool.allocate(bytes);
      REQUIRE(data != nullptr);
      REQUIRE(reinterpret_cast<std::uintptr_t>(data) % 64 == 0);
      for (const auto& [other, size] : blocks) {
        REQUIRE((data + bytes <= other || other + size <= data));
      }
      blocks.emplace_back(data, bytes);
    } else if (!blocks.empty()) {
      const std::size_t at = random.below(blocks.size());
      pool.release(blocks[at].first);
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  for (const auto& [data, size] : blocks) pool.release(data);
  auto directory = std::make_unique<PoolDirectory>();
  const std::uint64_t all = 2 * kSmallestArena;
  const PoolPlace place = pool.find(pool.allocate(kSmallestArena), kSmallestArena, *directory);
  CHECK(place.offset == 0);
  CHECK(pool.find(pool.allocate(all), all, *directory).arena > place.arena);
}

}  // namespace
}  // namespace holdfast::comm
