// The shared areas of a host's ranks, all in one process, and what a collective works on there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/engine/host_area.h"

namespace holdfast::comm::testing {

// Pools of processes that are all this one.
class OnePool final : public OwnPool, public PeerPool {
 public:
  PoolPlace find(const std::byte* data, std::uint64_t, PoolDirectory&) override {
    return {1, reinterpret_cast<std::uintptr_t>(data)};
  }
  const std::byte* at(const PoolDirectory&, const PoolPlace& place, std::uint64_t) override {
    return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(place.offset));
  }
};

// A few ops, and slices, before a count of 32 bits would be full.
inline constexpr std::uint64_t kNearlyFull = (1ULL << 32) - 5;

// By rank, as bits: whose memory is in a pool.
inline constexpr unsigned kNobody = 0;
inline constexpr unsigned kEverybody = ~0U;

// Real segments, mapped once per rank.
class HostAreas {
 public:
  explicit HostAreas(int size) {
    for (int r = 0; r < size; ++r) {
      areas_.push_back(std::make_shared<Segment>(
          std::move(Segment::create("testarea", sizeof(HostArea))).value()));
      bells_.push_back(std::move(Segment::create("testbell", sizeof(BellWords))).value());
    }
  }

  // As one rank maps them. `reach`: each other's memory can be read, which is this process' own.
  std::vector<HostPeer> peers(bool reach = false, unsigned lenders = kNobody) {
    std::vector<HostPeer> peers;
    for (std::size_t p = 0; p < areas_.size(); ++p) {
      // ThreadSanitizer must see that counters and lent memory go together: one mapping for all.
      auto area = lenders != kNobody
                      ? areas_[p]
                      : std::make_shared<Segment>(
                            std::move(Segment::open(areas_[p]->name(), sizeof(HostArea))).value());
      const Bell bell(reinterpret_cast<BellWords*>(bells_[p].data()));
      peers.push_back(
          {std::move(area), bell, {}, reach ? reach_memory(MemoryOwner::self()) : nullptr, pool_});
      if ((lenders >> p & 1) != 0) peers.back().own_pool = pool_;
    }
    return peers;
  }

  int size() const { return static_cast<int>(areas_.size()); }

  // A rank that sleeps until somebody rings.
  void lull(std::size_t rank) { (void)Bell(words(rank)).announce(Sleep::kOnFutex); }
  bool sleeps(std::size_t rank) { return words(rank)->sleeping.load() != 0; }

 private:
  BellWords* words(std::size_t rank) { return reinterpret_cast<BellWords*>(bells_[rank].data()); }

  std::shared_ptr<OnePool> pool_ = std::make_shared<OnePool>();
  std::vector<std::shared_ptr<Segment>> areas_;
  std::vector<Segment> bells_;
};

struct Memory {
  std::vector<std::vector<float>> input;
  std::vector<std::vector<float>> output;
};

inline Memory make_memory(Collective c, int size, int rank, std::size_t count) {
  const auto n = static_cast<std::size_t>(size);
  Memory m;
  const bool many_in =
      c == Collective::kReduceScatter || c == Collective::kAllToAll || c == Collective::kScatter;
  const bool many_out =
      c == Collective::kAllGather || c == Collective::kAllToAll || c == Collective::kGather;
  m.input.assign(many_in ? n : 1, std::vector<float>(count));
  m.output.assign(many_out ? n : 1, std::vector<float>(count, -1.0F));
  auto state = static_cast<std::uint32_t>(rank + 1);
  for (auto& block : m.input) {
    for (float& x : block) {
      state = state * 1664525U + 1013904223U;
      x = static_cast<float>(state >> 8) * 1e-5F;
    }
  }
  return m;
}

inline std::vector<Block> blocks(std::vector<std::vector<float>>& of) {
  std::vector<Block> result;
  for (auto& v : of) result.push_back({reinterpret_cast<std::byte*>(v.data()), v.size()});
  return result;
}

}  // namespace holdfast::comm::testing
