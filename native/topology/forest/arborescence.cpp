#include "topology/forest/arborescence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "topology/forest/capacities.h"

namespace holdfast::topology {
Arborescences::Arborescences(int n)
    : n_(n),
      node_of_(as_index(n)),
      chosen_(as_index(n)),
      length_(as_index(n) * as_index(n)),
      edge_(as_index(n) * as_index(n)),
      by_root_(as_index(n)) {
  CHECK(n >= 1);
}

bool Arborescences::choose(const std::vector<int>& active, int slot) {
  double least = LengthMatrix::kNoWay;
  int from = -1;
  const double* row = &length_[index(slot, 0)];
  for (const int other : active) {
    if (other == slot || row[other] >= least) continue;
    least = row[other];
    from = other;
  }
  if (from < 0) return false;
  Contracted& node = nodes_[as_index(node_of_[as_index(slot)])];
  node.length = least;
  node.entering = edge_[index(slot, from)];
  chosen_[as_index(slot)] = from;
  return true;
}

void Arborescences::merge(const std::vector<int>& cycle, std::vector<int>& active) {
  const int kept = cycle[0];
  const int made = static_cast<int>(nodes_.size());
  nodes_.emplace_back();
  for (const int slot : cycle) {
    Contracted& part = nodes_[as_index(node_of_[as_index(slot)])];
    part.parent = made;
    nodes_[as_index(made)].members.push_back(node_of_[as_index(slot)]);
    for (const int other : active) length_[index(slot, other)] -= part.length;
  }
  for (std::size_t i = 1; i < cycle.size(); ++i) {
    active.erase(std::lower_bound(active.begin(), active.end(), cycle[i]));
  }
  for (std::size_t i = 1; i < cycle.size(); ++i) {
    const int gone = cycle[i];
    for (const int other : active) {
      if (other == kept) continue;
      const auto take = [&](std::size_t into, std::size_t from) {
        if (length_[from] >= length_[into]) return;
        length_[into] = length_[from];
        edge_[into] = edge_[from];
      };
      take(index(kept, other), index(gone, other));
      take(index(other, kept), index(other, gone));
    }
  }
  node_of_[as_index(kept)] = made;
}

void Arborescences::take_lengths(const LengthMatrix& lengths, bool reversed) {
  for (int v = 0; v < n_; ++v) {
    const double* row = lengths.row(v);
    if (!reversed) std::copy(row, row + n_, &length_[index(v, 0)]);
    for (int u = 0; u < n_; ++u) edge_[index(v, u)] = {u, v};
  }
  if (!reversed) return;
  // By squares, so that what is written in columns stays in the cache.
  constexpr int kSide = 16;
  for (int v0 = 0; v0 < n_; v0 += kSide) {
    for (int u0 = 0; u0 < n_; u0 += kSide) {
      for (int v = v0; v < std::min(n_, v0 + kSide); ++v) {
        const double* row = lengths.row(v);
        for (int u = u0; u < std::min(n_, u0 + kSide); ++u) length_[index(u, v)] = row[u];
      }
    }
  }
}

bool Arborescences::contract(const LengthMatrix& lengths, bool reversed) {
  CHECK(lengths.size() == n_);
  take_lengths(lengths, reversed);
  nodes_.assign(as_index(n_), Contracted{});
  nodes_.reserve(as_index(n_) * 2);
  std::vector<int> active(as_index(n_));
  for (int v = 0; v < n_; ++v) active[as_index(v)] = node_of_[as_index(v)] = v;
  // A path that grows against the edges, until it meets itself.
  std::vector<int> path{0};
  std::vector<char> is_on(as_index(n_), 0);
  is_on[0] = 1;
  while (active.size() > 1) {
    const int top = path.back();
    if (!choose(active, top)) return false;
    const int from = chosen_[as_index(top)];
    if (!is_on[as_index(from)]) {
      path.push_back(from);
      is_on[as_index(from)] = 1;
      continue;
    }
    const auto first = std::find(path.begin(), path.end(), from);
    std::vector<int> cycle(first, path.end());
    std::sort(cycle.begin(), cycle.end());
    for (const int slot : cycle) is_on[as_index(slot)] = 0;
    path.erase(first, path.end());
    path.push_back(cycle[0]);
    is_on[as_index(cycle[0])] = 1;
    merge(cycle, active);
  }
  sum_up();
  return true;
}

// A tree is as long as all that was taken off edges, but for what the root is in: no edge enters
// that.
void Arborescences::sum_up() {
  const std::size_t top = nodes_.size() - 1;
  double all = 0;
  for (std::size_t i = 0; i < top; ++i) all += nodes_[i].length;
  for (int v = 0; v < n_; ++v) {
    double length = all;
    for (std::size_t i = as_index(v); i != top; i = as_index(nodes_[i].parent)) {
      length -= nodes_[i].length;
    }
    by_root_[as_index(v)] = length;
  }
}

void Arborescences::expand(int root, std::vector<int>& parents) const {
  parents.assign(as_index(n_), -1);
  // A contracted vertex, and the vertex of it that is reached from outside it.
  std::vector<std::pair<int, int>> open{{static_cast<int>(nodes_.size()) - 1, root}};
  while (!open.empty()) {
    const auto [whole, reached] = open.back();
    open.pop_back();
    for (int at = reached; at != whole;) {
      const int above = nodes_[as_index(at)].parent;
      for (const int other : nodes_[as_index(above)].members) {
        if (other == at) continue;
        const Edge& edge = nodes_[as_index(other)].entering;
        parents[as_index(edge.into)] = edge.from;
        open.emplace_back(other, edge.into);
      }
      at = above;
    }
  }
}

}  // namespace holdfast::topology
