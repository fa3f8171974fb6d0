#include "health/map_metrics.h"

#include "health/families.h"
#include "health/json.h"

namespace holdfast::health {

void MapMetrics::set(const comm::Observer::ObservedMap& map, Instant now) {
  const std::lock_guard lock(mutex_);
  std::erase_if(maps_, [&](const GroupMap& known) { return known.group == map.group; });
  if (map.facts.ranks == 0) return;
  if (maps_.size() == kMostGroups) maps_.erase(maps_.begin());
  maps_.push_back({map.group, map.facts, now});
}

void MapMetrics::write(metrics::TextEncoder& out, Duration wall_offset) const {
  const std::lock_guard lock(mutex_);
  out.family(family::kMap);
  for (const GroupMap& map : maps_) {
    out.sample({{"group", map.group}, {"digest", hex_digits(map.facts.digest)}}, std::uint64_t{1});
  }
  out.family(family::kMapVersion);
  for (const GroupMap& map : maps_) {
    out.sample({{"group", map.group}}, std::uint64_t{map.facts.version});
  }
  out.family(family::kMapRanks);
  for (const GroupMap& map : maps_) {
    out.sample({{"group", map.group}}, std::uint64_t{map.facts.ranks});
  }
  out.family(family::kMapTaken);
  for (const GroupMap& map : maps_) {
    out.sample({{"group", map.group}}, map.since.since_origin + wall_offset);
  }
}

comm::MapFacts MapMetrics::latest() const {
  const std::lock_guard lock(mutex_);
  return maps_.empty() ? comm::MapFacts{} : maps_.back().facts;
}

}  // namespace holdfast::health
