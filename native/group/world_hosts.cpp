// Who is on which host, and may share memory, by the cards of a world's members: all see the same.
#include <algorithm>

#include "group/world.h"

namespace holdfast::ft {

std::vector<int> World::hosts(const std::vector<Rank>& world_ranks) const {
  std::vector<std::string> names;
  std::vector<int> numbers;
  numbers.reserve(world_ranks.size());
  for (const Rank rank : world_ranks) {
    const std::string name = network_.host_of(view().cards[static_cast<std::size_t>(rank.value)]);
    const auto found = std::find(names.begin(), names.end(), name);
    numbers.push_back(static_cast<int>(found - names.begin()));
    if (found == names.end()) names.push_back(name);
  }
  return numbers;
}

// By the members' cards in that view, which all see alike.
bool World::may_share(const WorldView& view, const std::vector<Rank>& ranks) const {
  std::optional<std::string> memory;
  for (const Rank rank : ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (view.members[r] == kNobody) continue;
    const std::string name = network_.memory_of(view.cards[r]);
    if (name.empty() || name != memory.value_or(name)) return false;
    memory = name;
  }
  return true;
}

}  // namespace holdfast::ft
