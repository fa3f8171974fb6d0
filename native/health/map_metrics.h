// Map metrics: by which map of links each group of a whole world plans, and since when. A map is
// taken a few times in a job's life, so a mutex is cheap enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/metrics/text.h"
#include "base/types.h"
#include "comm/observer.h"

namespace holdfast::health {

// Any thread.
class MapMetrics {
 public:
  // A process is in one world, mostly; of more than these the one told first is forgotten.
  static constexpr std::size_t kMostGroups = 16;

  void set(const comm::Observer::ObservedMap& map, Instant now);
  void write(metrics::TextEncoder& out, Duration wall_offset) const;
  // The map of the group that was told last; of no ranks: there is none.
  comm::MapFacts latest() const;

 private:
  struct GroupMap {
    std::string group;
    comm::MapFacts facts;
    Instant since;
  };

  mutable std::mutex mutex_;    // guards maps_
  std::vector<GroupMap> maps_;  // in the order in which they were told last
};

}  // namespace holdfast::health
