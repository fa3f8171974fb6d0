// Random maps of links, for tests and benchmarks of forests.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "topology/forest/capacities.h"

namespace holdfast::topology::testing {

using Random = std::mt19937_64;

inline int number(Random& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1));
}

inline void add_cards(Capacities& c, Random& random, int least_mbit, int most_mbit) {
  for (int r = 0; r < c.ranks; ++r) {
    std::vector<int> others(as_index(c.ranks));
    std::iota(others.begin(), others.end(), 0);
    others.erase(others.begin() + r);
    const auto rate = [&] { return std::int64_t{1000} * number(random, least_mbit, most_mbit); };
    c.shared.push_back({"out of " + std::to_string(r), rate(), {r}, others});
    c.shared.push_back({"into " + std::to_string(r), rate(), others, {r}});
  }
}

inline void add_uplinks(Capacities& c, Random& random, int sites) {
  std::vector<int> site_of;
  for (int r = 0; r < c.ranks; ++r) site_of.push_back(number(random, 0, sites - 1));
  for (int s = 0; s < sites; ++s) {
    std::vector<int> inside;
    std::vector<int> outside;
    for (int r = 0; r < c.ranks; ++r) {
      (site_of[as_index(r)] == s ? inside : outside).push_back(r);
    }
    if (inside.empty() || outside.empty()) continue;
    const std::int64_t rate = std::int64_t{1000} * number(random, 50, 500);
    c.shared.push_back({"out of site " + std::to_string(s), rate, inside, outside});
    c.shared.push_back({"into site " + std::to_string(s), rate, outside, inside});
  }
}

// Network cards of mixed rates, sites with uplinks, pairs that differ, and ways that are missing.
inline Capacities random_map(Random& random, int n) {
  Capacities c;
  c.ranks = n;
  c.kbit_per_s.assign(as_index(n) * as_index(n), 10'000'000);
  const int kind = number(random, 0, 3);
  if (kind >= 2) {
    for (int u = 0; u < n; ++u) {
      for (int v = 0; v < n; ++v) {
        const bool has_way = kind == 2 || v == (u + 1) % n || number(random, 0, 2) > 0;
        c.kbit_per_s[c.pair(u, v)] = has_way ? std::int64_t{1000} * number(random, 20, 900) : 0;
      }
    }
  }
  add_cards(c, random, kind == 0 ? 25 : 900, 1000);
  if (kind == 1) add_uplinks(c, random, number(random, 2, 4));
  return c;
}

// The map without some ranks, as they are left, and what number each rank then has; -1: none.
struct Loss {
  Capacities left;
  std::vector<int> place;
};

inline Loss lose(const Capacities& map, const std::vector<int>& dead) {
  Loss loss;
  loss.left.ranks = 0;
  for (int r = 0; r < map.ranks; ++r) {
    const bool stays = std::find(dead.begin(), dead.end(), r) == dead.end();
    loss.place.push_back(stays ? loss.left.ranks++ : -1);
  }
  for (int u = 0; u < map.ranks; ++u) {
    for (int v = 0; v < map.ranks; ++v) {
      if (loss.place[as_index(u)] < 0 || loss.place[as_index(v)] < 0) continue;
      loss.left.kbit_per_s.push_back(map.kbit_per_s[map.pair(u, v)]);
    }
  }
  for (const SharedCapacity& shared : map.shared) {
    SharedCapacity kept{shared.name, shared.kbit_per_s, {}, {}};
    const auto keep = [&](const std::vector<int>& ranks, std::vector<int>& into) {
      for (const int r : ranks) {
        if (loss.place[as_index(r)] >= 0) into.push_back(loss.place[as_index(r)]);
      }
    };
    keep(shared.from, kept.from);
    keep(shared.to, kept.to);
    if (!kept.from.empty() && !kept.to.empty()) loss.left.shared.push_back(std::move(kept));
  }
  return loss;
}

}  // namespace holdfast::topology::testing
