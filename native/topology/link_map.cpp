#include "topology/link_map.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fnv.h"

namespace holdfast::topology {

LinkMap LinkMap::without(std::span<const int> ranks) const {
  std::vector<int> left;
  for (int r = 0; r < size(); ++r) {
    if (std::find(ranks.begin(), ranks.end(), r) == ranks.end()) left.push_back(r);
  }
  return select(left);
}

LinkMap LinkMap::select(std::span<const int> ranks) const {
  CHECK(!ranks.empty());
  LinkMap map;
  map.gamma_ns_per_gbyte_ = gamma_ns_per_gbyte_;
  map.capacities_.ranks = static_cast<int>(ranks.size());
  std::vector<int> number(static_cast<std::size_t>(size()), -1);
  for (const int from : ranks) {
    number[static_cast<std::size_t>(from)] = static_cast<int>(map.domains_.size());
    map.domains_.push_back(domains(from));
    for (const int to : ranks) {
      map.alpha_ns_.push_back(alpha_ns(from, to));
      map.capacities_.kbit_per_s.push_back(capacities_.kbit_per_s[capacities_.pair(from, to)]);
    }
  }
  const auto renumbered = [&](const std::vector<int>& all) {
    std::vector<int> kept;
    for (const int r : all) {
      if (number[static_cast<std::size_t>(r)] >= 0) {
        kept.push_back(number[static_cast<std::size_t>(r)]);
      }
    }
    std::sort(kept.begin(), kept.end());
    return kept;
  };
  for (const SharedCapacity& shared : capacities_.shared) {
    SharedCapacity kept{shared.name, shared.kbit_per_s, renumbered(shared.from),
                        renumbered(shared.to)};
    if (!kept.from.empty() && !kept.to.empty()) map.capacities_.shared.push_back(std::move(kept));
  }
  return map;
}

std::shared_ptr<const LinkMap> part_of(const std::shared_ptr<const LinkMap>& map,
                                       const std::vector<Rank>& ranks) {
  if (map == nullptr) return nullptr;
  std::vector<int> numbers;
  for (const Rank rank : ranks) {
    if (rank.value < 0 || rank.value >= map->size()) return nullptr;
    numbers.push_back(rank.value);
  }
  return std::make_shared<const LinkMap>(map->select(numbers));
}

std::uint64_t LinkMap::digest() const {
  Fnv1a hash;
  const auto number = [&](std::int64_t value) { hash.mix(static_cast<std::uint64_t>(value)); };
  const auto text = [&](const std::string& value) {
    number(static_cast<std::int64_t>(value.size()));
    hash.mix(std::string_view(value));
  };
  const auto list = [&](const std::vector<int>& values) {
    number(static_cast<std::int64_t>(values.size()));
    for (const int value : values) number(value);
  };
  number(kMapFormat);
  number(size());
  number(gamma_ns_per_gbyte_);
  for (const auto& path : domains_) {
    number(static_cast<std::int64_t>(path.size()));
    for (const std::string& name : path) text(name);
  }
  for (const std::int64_t value : alpha_ns_) number(value);
  for (const std::int64_t value : capacities_.kbit_per_s) number(value);
  for (const SharedCapacity& shared : capacities_.shared) {
    text(shared.name);
    number(shared.kbit_per_s);
    list(shared.from);
    list(shared.to);
  }
  return hash.value();
}

}  // namespace holdfast::topology
