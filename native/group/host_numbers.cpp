#include "group/host_numbers.h"

#include <algorithm>

#include "group/network.h"

namespace holdfast::group {

std::vector<int> number_hosts(const ft::WorldView& view, const std::vector<Rank>& ranks,
                              const Network& network) {
  std::vector<std::string> names;
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const Rank rank : ranks) {
    const std::string name = network.host_of(view.cards[static_cast<std::size_t>(rank.value)]);
    const auto found = std::find(names.begin(), names.end(), name);
    numbers.push_back(static_cast<int>(found - names.begin()));
    if (found == names.end()) names.push_back(name);
  }
  return numbers;
}

bool may_share(const ft::WorldView& view, const std::vector<Rank>& ranks, const Network& network) {
  std::optional<std::string> memory;
  for (const Rank rank : ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (view.members[r] == ft::kNobody) continue;
    const std::string name = network.memory_of(view.cards[r]);
    if (name.empty() || name != memory.value_or(name)) return false;
    memory = name;
  }
  return true;
}

}  // namespace holdfast::group
