// The map of a group's links: where the ranks are, what each directed pair reaches by itself, and
// what pairs share. It holds whole numbers only (ns, kbit/s), so that it has the same bytes and the
// same digest on every machine. docs/guide/topology.md has its form as JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "topology/forest/capacities.h"

namespace holdfast::topology {

inline constexpr int kMapFormat = 1;
inline constexpr int kMostMapRanks = 1024;
inline constexpr std::size_t kMostDomainDepth = 8;
inline constexpr std::size_t kMostSharedCapacities = 4096;
inline constexpr std::size_t kMostMapNameBytes = 64;
inline constexpr double kMostGbitPerS = 1e6;
inline constexpr double kMostAlphaUs = 1e9;

class LinkMap {
 public:
  // Returns kConfigError: a line that names the key, its value and what is accepted.
  static Result<LinkMap> parse(std::string_view json);

  int size() const { return capacities_.ranks; }
  // Of a rank, from the outside in; empty where nothing is known.
  const std::vector<std::string>& domains(int rank) const {
    return domains_[static_cast<std::size_t>(rank)];
  }
  std::int64_t alpha_ns(int from, int to) const { return alpha_ns_[capacities_.pair(from, to)]; }
  const Capacities& capacities() const { return capacities_; }
  std::int64_t gamma_ns_per_gbyte() const { return gamma_ns_per_gbyte_; }

  // The map of these ranks, numbered anew in the order given; a shared capacity that none of their
  // pairs uses is gone. None twice, and one at least.
  LinkMap select(std::span<const int> ranks) const;
  // The map of all others, in their order.
  LinkMap without(std::span<const int> ranks) const;

  // One line of JSON: the same map gives the same text, and the text this map.
  std::string to_json() const;
  // A hash of all that is in it.
  std::uint64_t digest() const;

 private:
  friend class MapReader;

  std::vector<std::vector<std::string>> domains_;
  std::vector<std::int64_t> alpha_ns_;
  Capacities capacities_;
  std::int64_t gamma_ns_per_gbyte_ = 0;
};

// The part of a map that is of these ranks; null where there is no map, or it lacks one of them.
std::shared_ptr<const LinkMap> part_of(const std::shared_ptr<const LinkMap>& map,
                                       const std::vector<Rank>& ranks);

}  // namespace holdfast::topology
