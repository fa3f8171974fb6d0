// Whether two arrays are the same, bit by bit: arrays that are checked after every event are
// compared as fast as memory can be read.
#pragma once

#include <cstring>
#include <vector>

namespace holdfast::sim {

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  // An empty vector may have no pointer to compare.
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace holdfast::sim
