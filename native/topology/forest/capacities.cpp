// What bounds the use of capacities, and how much trees use them.
#include "topology/forest/capacities.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "topology/forest/forest.h"

namespace holdfast::topology {
double most_payload(const Capacities& capacities, const ForestTask& task) {
  const auto n = as_index(capacities.ranks);
  std::vector<double> in(n, 0);
  std::vector<double> out(n, 0);
  for (std::size_t u = 0; u < n; ++u) {
    for (std::size_t v = 0; v < n; ++v) {
      const auto rate = static_cast<double>(capacities.kbit_per_s[u * n + v]);
      out[u] += u == v ? 0 : rate;
      in[v] += u == v ? 0 : rate;
    }
  }
  for (const SharedCapacity& shared : capacities.shared) {
    const auto rate = static_cast<double>(shared.kbit_per_s);
    const auto others = [&](const std::vector<int>& ranks, int self) {
      return ranks.size() + 1 >=
             n + std::size_t{std::binary_search(ranks.begin(), ranks.end(), self)};
    };
    if (shared.from.size() == 1 && others(shared.to, shared.from[0])) {
      double& least = out[as_index(shared.from[0])];
      least = std::min(least, rate);
    }
    if (shared.to.size() == 1 && others(shared.from, shared.to[0])) {
      double& least = in[as_index(shared.to[0])];
      least = std::min(least, rate);
    }
  }
  double most = std::numeric_limits<double>::infinity();
  // A root needs nothing but its own part of what all the others send it, or receive from it.
  const auto& parts = task.parts_of_roots;
  const auto whole =
      static_cast<double>(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}));
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const double others = 1 - static_cast<double>(parts[r]) / whole;
    if (others > 0) most = std::min(most, (task.up ? out[r] : in[r]) / others);
  }
  if (!parts.empty()) return most;
  for (std::size_t r = 0; r < n; ++r) {
    const bool is_root = task.root && as_index(*task.root) == r;
    if (task.down ? !is_root || task.up : is_root) most = std::min(most, in[r]);
    if (task.up ? !is_root || task.down : is_root) most = std::min(most, out[r]);
  }
  return most;
}

std::vector<double> usage(const Capacities& capacities, const std::vector<PlannedTree>& trees) {
  std::vector<double> used(capacities.count(), 0);
  for (const PlannedTree& tree : trees) {
    const double share = static_cast<double>(tree.share) / static_cast<double>(kWholeShare);
    const auto go = [&](int from, int to) { used[capacities.pair(from, to)] += share; };
    for (int r = 0; r < capacities.ranks; ++r) {
      if (r == tree.root) continue;
      if (!tree.up.empty()) go(r, tree.up[as_index(r)]);
      if (!tree.down.empty()) go(tree.down[as_index(r)], r);
    }
  }
  for (std::size_t s = 0; s < capacities.shared.size(); ++s) {
    double& sum = used[capacities.pairs() + s];
    for (const int u : capacities.shared[s].from) {
      for (const int v : capacities.shared[s].to) sum += used[capacities.pair(u, v)];
    }
  }
  return used;
}

}  // namespace holdfast::topology
