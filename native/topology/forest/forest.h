// Forests: weighted trees, along which a collective moves its payload. Each tree has a root, by
// each rank whom it sends its sum to on the way up and whom it receives the result from on the way
// down, and a share of the payload. A ring in any order is a forest, and so is a star.
//
// The shares are chosen so that the capacity that is used most is used as little as possible. That
// is a packing of trees; its linear program's dual gives prices of capacities, under which the
// shortest tree bounds what any forest can reach. We follow the prices of a steeper and steeper
// potential, move weight from the dearest tree to the cheapest one, and stop where both meet.
//
// Sources: Edmonds, "Edge-disjoint branchings", 1973; Plotkin, Shmoys, Tardos, "Fast approximation
// algorithms for fractional packing and covering problems", 1995; Lacoste-Julien, Jaggi, "On the
// global linear convergence of Frank-Wolfe optimization variants", 2015, section 2 (pairwise
// steps); Zhao et al., "ForestColl: throughput-optimal collective communications on heterogeneous
// network fabrics", 2024 (trees of a collective, and the bound).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "topology/forest/capacities.h"

namespace holdfast::topology {

inline constexpr int kMostTrees = 64;
// Shares are in parts of this.
inline constexpr std::int64_t kWholeShare = 1 << 16;

struct PlannedTree {
  int root = 0;
  std::vector<int> up;    // by rank: whom it sends to; -1 for the root; empty: no way up
  std::vector<int> down;  // by rank: whom it receives from; likewise
  std::int64_t share = 0;
  friend bool operator==(const PlannedTree&, const PlannedTree&) = default;
};

// What a forest is asked to do.
struct ForestTask {
  bool up = true;           // sum up at the roots: all_reduce, reduce, reduce_scatter
  bool down = true;         // send from the roots to all: all_reduce, broadcast, all_gather
  std::optional<int> root;  // of every tree; nothing: any
  // By rank, how much of the payload has it as the root, in parts of the sum of all: the blocks of
  // reduce_scatter and all_gather. Empty: as the search finds best.
  std::vector<std::int64_t> parts_of_roots = {};
};

struct Forest {
  std::vector<PlannedTree> trees;  // by falling share
  // Payload a second, in kbit: what these trees reach, and what no forest exceeds.
  double kbit_per_s = 0;
  double bound_kbit_per_s = 0;
  std::size_t decides = 0;  // the capacity that is used most
  int steps = 0;            // of the search
};

// So many trees a forest has at most: where roots have parts of their own, two each at least.
constexpr std::size_t most_trees(const ForestTask& task) {
  return std::max(std::size_t{kMostTrees}, 2 * task.parts_of_roots.size());
}

// A forest for the task; nothing where a rank cannot be reached from another one. Two ranks at
// least. The same input gives the same forest on every machine.
std::optional<Forest> make_forest(const Capacities& capacities, const ForestTask& task);

// A payload a second that no forest exceeds: whatever the trees, each rank receives the result or
// is a root that receives parts, and sends its part or is a root that sends the result.
double most_payload(const Capacities& capacities, const ForestTask& task);

// By capacity: how often the trees use it, as a share of the payload.
std::vector<double> usage(const Capacities& capacities, const std::vector<PlannedTree>& trees);

}  // namespace holdfast::topology
