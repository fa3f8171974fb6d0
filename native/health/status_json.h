// Status JSON: what a board knows, for the status page and for programs; its fields are those of
// docs/health.md. Bounded: of a large world the ranks and links that matter most.
#pragma once

#include <string>

#include "health/status_model.h"

namespace holdfast::runtime {

// Of one world. Some 60 KB for the ranks and 100 KB for the links, at most.
inline constexpr std::size_t kRanksShown = 256;
inline constexpr std::size_t kLinksShown = 1024;
inline constexpr std::size_t kStragglersShown = 8;

struct StatusHeader {
  bool coordinates = false;
  Instant now;
  Duration wall_offset{};  // to be added to an instant: time since 1970
  Duration heartbeat{};
  std::string sickness;  // empty: none
};

std::string status_json(const StatusSnapshot& state, const StatusHeader& header);

}  // namespace holdfast::runtime
