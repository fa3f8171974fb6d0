// What limits a group's rates, and what a tree takes of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::topology {

constexpr std::size_t as_index(int value) { return static_cast<std::size_t>(value); }

// A rate that is shared by all that goes from one set of ranks to another: a network card, an
// uplink, a switch.
struct SharedCapacity {
  std::string name;
  std::int64_t kbit_per_s = 0;
  std::vector<int> from;  // rising
  std::vector<int> to;    // rising
  friend bool operator==(const SharedCapacity&, const SharedCapacity&) = default;
};

// Capacities are numbered: that of the pair (from, to) is from * ranks + to, the shared ones follow
// in their order.
struct Capacities {
  int ranks = 1;
  std::vector<std::int64_t> kbit_per_s;  // by pair; 0: there is no way
  std::vector<SharedCapacity> shared;

  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks) +
           static_cast<std::size_t>(to);
  }
  std::size_t pairs() const { return pair(ranks, 0); }
  std::size_t count() const { return pairs() + shared.size(); }
  std::int64_t rate(std::size_t capacity) const {
    return capacity < pairs() ? kbit_per_s[capacity] : shared[capacity - pairs()].kbit_per_s;
  }
};

}  // namespace holdfast::topology
