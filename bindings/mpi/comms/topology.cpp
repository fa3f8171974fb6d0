#include "mpi/comms/topology.h"

#include <functional>
#include <numeric>

#include "mpi/core/constants.h"

namespace holdfast::mpi {

int Grid::rank_at(std::vector<int> at) const {
  int rank = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (at[i] < 0 || at[i] >= dims[i]) {
      if (!periods[i]) return kProcNull;
      at[i] = (at[i] % dims[i] + dims[i]) % dims[i];
    }
    rank = rank * dims[i] + at[i];
  }
  return rank;
}

std::vector<int> Grid::coords_of(int rank) const {
  std::vector<int> at(dims.size());
  for (std::size_t i = dims.size(); i-- > 0;) {
    at[i] = rank % dims[i];
    rank /= dims[i];
  }
  return at;
}

int Grid::size() const { return std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>()); }

std::vector<int> Graph::neighbours(int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  const int begin = r == 0 ? 0 : index[r - 1];
  return {edges.begin() + begin, edges.begin() + index[r]};
}

namespace {

// For each dimension the one before and the one behind (MPI-4.1, 8.6).
std::vector<int> grid_neighbours(const Grid& grid, int rank) {
  std::vector<int> found;
  for (std::size_t i = 0; i < grid.dims.size(); ++i) {
    for (const int step : {-1, 1}) {
      std::vector<int> at = grid.coords_of(rank);
      at[i] += step;
      found.push_back(grid.rank_at(at));
    }
  }
  return found;
}

}  // namespace

Neighbours neighbours_of(const Topology& topology, int rank) {
  if (const auto* grid = std::get_if<Grid>(&topology.shape)) {
    const std::vector<int> all = grid_neighbours(*grid, rank);
    return {all, all};
  }
  if (const auto* graph = std::get_if<Graph>(&topology.shape)) {
    const std::vector<int> all = graph->neighbours(rank);
    return {all, all};
  }
  const auto& own = std::get<Adjacency>(topology.shape);
  return {own.sources, own.destinations};
}

}  // namespace holdfast::mpi
