#include "comm/schedule/collective.h"

namespace holdfast::comm {

static_assert(
    [] {
      for (int i = 0; i < kCollectiveCount; ++i) {
        const CollectiveFacts& facts = kCollectives[static_cast<std::size_t>(i)];
        if (facts.collective != static_cast<Collective>(i) || facts.name.empty()) return false;
      }
      return true;
    }(),
    "a row for every collective, in their order");

std::optional<Collective> find_collective(std::string_view name) {
  for (const CollectiveFacts& facts : kCollectives) {
    if (facts.name == name) return facts.collective;
  }
  return std::nullopt;
}

}  // namespace holdfast::comm
