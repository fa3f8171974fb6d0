#include "group/host_numbers.h"

#include <algorithm>
#include <map>

#include "group/network.h"

namespace holdfast::group {
namespace {

std::vector<std::string> names_in(const std::string& domain) {
  std::vector<std::string> names;
  std::size_t at = 0;
  while (at < domain.size()) {
    const std::size_t end = std::min(domain.find('/', at), domain.size());
    names.push_back(domain.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

}  // namespace

const std::vector<CardWords::Words>& CardWords::of(const ft::WorldView& view,
                                                   const Network& network) {
  if (cards_ == view.cards) return words_;
  words_.clear();
  for (const std::string& card : view.cards) {
    words_.push_back({network.host_of(card), network.domain_of(card), network.memory_of(card)});
  }
  cards_ = view.cards;
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

std::vector<std::vector<int>> number_domains(const std::vector<CardWords::Words>& words,
                                             const std::vector<Rank>& ranks) {
  const std::vector<int> hosts = number_hosts(words, ranks);
  std::vector<std::vector<std::string>> around;  // by host, which are numbered as they appear
  std::size_t depth = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (static_cast<std::size_t>(hosts[i]) < around.size()) continue;
    around.push_back(names_in(words[static_cast<std::size_t>(ranks[i].value)].domain));
    depth = std::max(depth, around.back().size());
  }
  std::vector<std::map<std::string, int>> known(depth);
  std::vector<std::vector<int>> paths(around.size());
  for (std::size_t h = 0; h < around.size(); ++h) {
    around[h].resize(depth);  // of what is not named on, there is one
    for (std::size_t k = 0; k < depth; ++k) {
      const int next = static_cast<int>(known[k].size());
      paths[h].push_back(known[k].try_emplace(around[h][k], next).first->second);
    }
    paths[h].push_back(static_cast<int>(h));
  }
  std::vector<std::vector<int>> by_rank;
  by_rank.reserve(hosts.size());
  for (const int host : hosts) by_rank.push_back(paths[static_cast<std::size_t>(host)]);
  return by_rank;
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
