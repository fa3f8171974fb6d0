// Tiles and levels for the tests of the code.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "erasure/products.h"
#include "sim/random.h"

namespace holdfast::testing {

// Tiles of one length, each at an address of its own and between guards.
class Tiles {
 public:
  static constexpr std::byte kGuard{0xa5};
  static constexpr std::size_t kGuardBytes = 64;

  // Tile i begins `place(i)` bytes, 63 at most, behind a cache line.
  template <class Place>
  Tiles(std::size_t count, std::size_t bytes, Place place) : bytes_(bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      memory_.emplace_back(bytes + 4 * kGuardBytes, kGuard);
      const auto at = reinterpret_cast<std::uintptr_t>(memory_.back().data());
      begins_.push_back(2 * kGuardBytes - at % 64 + place(i));
    }
    for (std::size_t i = 0; i < count; ++i) data_.push_back(memory_[i].data() + begins_[i]);
  }
  Tiles(std::size_t count, std::size_t bytes)
      : Tiles(count, bytes, [](std::size_t i) { return (7 * i + 3) % 64; }) {}

  std::byte* operator[](std::size_t i) const { return data_[i]; }
  std::span<std::byte> tile(std::size_t i) const { return {data_[i], bytes_}; }
  std::span<std::byte* const> data() const { return data_; }
  std::vector<const std::byte*> inputs() const { return {data_.begin(), data_.end()}; }

  void fill(sim::Random& chance) {
    for (std::byte* const each : data_) {
      for (std::size_t i = 0; i < bytes_; ++i) each[i] = static_cast<std::byte>(chance.next());
    }
  }
  // Whether nothing was written beside the tiles.
  bool guarded() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      for (std::size_t at = 0; at < memory_[i].size(); ++at) {
        const bool inside = at >= begins_[i] && at < begins_[i] + bytes_;
        if (!inside && memory_[i][at] != kGuard) return false;
      }
    }
    return true;
  }

 private:
  std::size_t bytes_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::size_t> begins_;
  std::vector<std::byte*> data_;
};

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

struct NamedLoop {
  std::string name;
  erasure::ProductLoop loop;
};

// Every loop that this processor runs.
inline std::vector<NamedLoop> product_loops() {
  std::vector<NamedLoop> all;
  for (const CpuLevel level : cpu_levels()) {
    const std::string name(cpu_level_name(level));
    all.push_back({name, erasure::product_loop(level, false)});
    const erasure::ProductLoop galois = erasure::product_loop(level, has_galois());
    if (galois != all.back().loop) all.push_back({name + " with GFNI", galois});
  }
  return all;
}

}  // namespace holdfast::testing
