#include "topology/forest/domains.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace holdfast::topology {
namespace {

// Latencies further apart than this are of distinct kinds.
constexpr std::int64_t kDistinct = 3;
// What is shorter than this counts as this long: below it, the host decides and not the way.
constexpr std::int64_t kShortestNs = 1000;

struct JoinedPair {
  std::int64_t ns = 0;
  int a = 0;
  int b = 0;
};

std::int64_t ns_between(const LinkMap& map, int a, int b) {
  return std::max({map.alpha_ns(a, b), map.alpha_ns(b, a), kShortestNs});
}

// The shortest tree over the ranks (Prim 1957), its edges by rising length.
std::vector<JoinedPair> shortest_tree(const LinkMap& map, const std::vector<int>& ranks) {
  std::vector<JoinedPair> nearest;
  nearest.reserve(ranks.size());
  for (const int rank : ranks) {
    nearest.push_back({ns_between(map, ranks[0], rank), ranks[0], rank});
  }
  nearest.erase(nearest.begin());
  std::vector<JoinedPair> tree;
  while (!nearest.empty()) {
    const auto next =
        std::min_element(nearest.begin(), nearest.end(),
                         [](const JoinedPair& x, const JoinedPair& y) { return x.ns < y.ns; });
    const JoinedPair joined = *next;
    nearest.erase(next);
    tree.push_back(joined);
    for (JoinedPair& other : nearest) {
      const std::int64_t ns = ns_between(map, joined.b, other.b);
      if (ns < other.ns) other = {ns, joined.b, other.b};
    }
  }
  std::stable_sort(tree.begin(), tree.end(),
                   [](const JoinedPair& x, const JoinedPair& y) { return x.ns < y.ns; });
  return tree;
}

// Splits the ranks where the longest ways begin that are of another kind than the next shorter
// ones; one part: there are none.
std::vector<std::vector<int>> split(const LinkMap& map, const std::vector<int>& ranks) {
  const std::vector<JoinedPair> tree = shortest_tree(map, ranks);
  std::size_t near = tree.size();  // edges inside parts
  for (std::size_t i = tree.size(); i-- > 1;) {
    if (tree[i].ns < kDistinct * tree[i - 1].ns) continue;
    near = i;
    break;
  }
  std::vector<int> part_of(static_cast<std::size_t>(map.size()), -1);
  for (const int rank : ranks) part_of[as_index(rank)] = rank;
  for (std::size_t i = 0; i < near; ++i) {
    const int kept = std::min(part_of[as_index(tree[i].a)], part_of[as_index(tree[i].b)]);
    const int gone = std::max(part_of[as_index(tree[i].a)], part_of[as_index(tree[i].b)]);
    std::replace(part_of.begin(), part_of.end(), gone, kept);
  }
  std::vector<std::vector<int>> parts;
  for (const int first : ranks) {
    if (part_of[as_index(first)] != first) continue;
    parts.emplace_back();
    for (const int rank : ranks) {
      if (part_of[as_index(rank)] == first) parts.back().push_back(rank);
    }
  }
  return parts;
}

// Appends to the paths of these ranks which part they are in, and so on inside of each.
void descend(const LinkMap& map, const std::vector<int>& ranks,
             std::vector<std::vector<int>>& paths) {
  if (ranks.size() < 3 || paths[as_index(ranks[0])].size() + 2 >= kMostFabricLevels) return;
  const std::vector<std::vector<int>> parts = split(map, ranks);
  if (parts.size() == 1) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const int rank : parts[i]) paths[as_index(rank)].push_back(static_cast<int>(i));
    descend(map, parts[i], paths);
  }
}

}  // namespace

Fabric domains_of(const LinkMap& map) {
  std::vector<std::vector<int>> paths(as_index(map.size()));
  std::vector<int> all;
  all.reserve(static_cast<std::size_t>(map.size()));
  for (int r = 0; r < map.size(); ++r) all.push_back(r);
  descend(map, all, paths);
  std::size_t depth = 0;
  for (const auto& path : paths) depth = std::max(depth, path.size());
  // What is not divided further is one domain all the way down.
  for (auto& path : paths) path.resize(depth, 0);
  std::vector<FabricLevel> levels{{"all", {}}};
  for (std::size_t k = 0; k < depth; ++k) levels.push_back({"near", {}});
  return Fabric::make(std::move(levels), paths).value();
}

}  // namespace holdfast::topology
