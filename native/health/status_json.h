// Status JSON: the status model as JSON, for the status page and for programs.
// docs/reference/status-json.md describes its fields. Its size is bounded: for a large world it has
// the ranks and links that matter most.
#pragma once

#include <string>

#include "health/status_model.h"

namespace holdfast::health {

// Limits for one world: at most some 60 KB for the ranks and 100 KB for the links.
inline constexpr std::size_t kRanksShown = 256;
inline constexpr std::size_t kLinksShown = 1024;
inline constexpr std::size_t kStragglersShown = 8;

struct StatusHeader {
  bool coordinates = false;
  Instant now;
  Duration wall_offset{};  // added to an instant gives the time since 1970
  Duration heartbeat{};
  std::string sickness;  // empty: none
};

std::string status_json(const StatusSnapshot& state, const StatusHeader& header);

}  // namespace holdfast::health
