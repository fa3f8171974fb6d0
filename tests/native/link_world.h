// All ranks of a world in one test thread: the engine's tests drive them in turn.
#pragma once

#include <vector>

#include "link_pairs.h"

namespace holdfast::comm::testing {

struct LinkWorld {
  int size;
  std::vector<LinkPair> pairs;
  std::vector<std::vector<Link*>> links;  // [rank][peer]

  LinkWorld(const TransportRow& row, int n) : size(n), links(static_cast<std::size_t>(n)) {
    for (auto& l : links) l.resize(static_cast<std::size_t>(n));
    for (std::size_t a = 0; a < links.size(); ++a) {
      for (std::size_t b = a + 1; b < links.size(); ++b) {
        pairs.push_back(row.make());
        links[a][b] = pairs.back().a.get();
        links[b][a] = pairs.back().b.get();
      }
    }
  }

  bool pump() {
    bool moved = false;
    for (auto& pair : pairs) {
      moved = testing::pump(*pair.a) || moved;
      moved = testing::pump(*pair.b) || moved;
    }
    return moved;
  }
};

}  // namespace holdfast::comm::testing
