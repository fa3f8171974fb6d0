#include "group/host_numbers.h"

#include <algorithm>

#include "group/network.h"

namespace holdfast::group {

const std::vector<CardWords::Words>& CardWords::of(const ft::WorldView& view,
                                                   const Network& network) {
  if (epoch_ == view.epoch && words_.size() == view.cards.size()) return words_;
  words_.clear();
  for (const std::string& card : view.cards) {
    words_.push_back({network.host_of(card), network.memory_of(card)});
  }
  epoch_ = view.epoch;
  return words_;
}

std::vector<int> number_hosts(const std::vector<CardWords::Words>& words,
                              const std::vector<Rank>& ranks) {
  std::vector<const std::string*> names;
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const Rank rank : ranks) {
    const std::string& name = words[static_cast<std::size_t>(rank.value)].host;
    const auto found = std::find_if(names.begin(), names.end(),
                                    [&](const std::string* known) { return *known == name; });
    numbers.push_back(static_cast<int>(found - names.begin()));
    if (found == names.end()) names.push_back(&name);
  }
  return numbers;
}

bool may_share(const ft::WorldView& view, const std::vector<CardWords::Words>& words,
               const std::vector<Rank>& ranks) {
  const std::string* memory = nullptr;
  for (const Rank rank : ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (view.members[r] == ft::kNobody) continue;
    const std::string& name = words[r].memory;
    if (name.empty() || (memory != nullptr && name != *memory)) return false;
    memory = &name;
  }
  return true;
}

std::vector<int> number_hosts(const ft::WorldView& view, const std::vector<Rank>& ranks,
                              const Network& network) {
  return number_hosts(CardWords().of(view, network), ranks);
}

bool may_share(const ft::WorldView& view, const std::vector<Rank>& ranks, const Network& network) {
  return may_share(view, CardWords().of(view, network), ranks);
}

}  // namespace holdfast::group
