// Outages: when the path between the two ends of a simulated trunk lets nothing through, in one
// direction or both, for all connections or one of them.
#pragma once

#include <array>
#include <vector>

#include "base/types.h"

namespace holdfast::sim {

inline constexpr int kAllConnections = -1;
inline constexpr Instant kNever{Duration::max()};

class Outages {
 public:
  // What end `from` sends at least from `begins` until `ends` is lost.
  void add(int from, int connection, Instant begins, Instant ends) {
    parts_.at(static_cast<std::size_t>(from)).push_back({connection, begins, ends});
  }
  bool loses(int from, int connection, Instant at) const {
    for (const PathOutage& part : parts_.at(static_cast<std::size_t>(from))) {
      const bool meant = part.connection == kAllConnections || part.connection == connection;
      if (meant && at >= part.begins && at < part.ends) return true;
    }
    return false;
  }

 private:
  struct PathOutage {
    int connection = kAllConnections;
    Instant begins;
    Instant ends;
  };
  std::array<std::vector<PathOutage>, 2> parts_;
};

}  // namespace holdfast::sim
