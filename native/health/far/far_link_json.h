// Far links as JSON, a part of the status JSON.
#pragma once

#include <cstddef>
#include <vector>

#include "health/far/far_link.h"
#include "health/json.h"

namespace holdfast::health {

inline constexpr std::size_t kFarLinksShown = 256;

struct FarLinkText {
  std::size_t rank;      // who has told of it
  const FarLink* link;   // outlives this
  Duration told_before;  // how long ago
};

// The fields `far_links` and `far_links_left_out`, of a world; nothing for no links. Those that are
// cut, or were of late, come first.
void write_far_links_of(std::vector<FarLinkText> links, JsonWriter& out);

}  // namespace holdfast::health
