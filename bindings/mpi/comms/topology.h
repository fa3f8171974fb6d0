// Topology: who is whose neighbour in a communicator: a grid, a graph, or each rank's own list.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace holdfast::mpi {

struct Grid {
  std::vector<int> dims;
  std::vector<bool> periods;
  std::vector<int> coords;  // this rank's

  // The rank at these coordinates; kProcNull outside of a dimension that does not wrap around.
  int rank_at(std::vector<int> coords) const;
  std::vector<int> coords_of(int rank) const;
  int size() const;
};

// Neighbours of all ranks, as MPI_Graph_create has them: those of rank r end at index[r].
struct Graph {
  std::vector<int> index;
  std::vector<int> edges;

  std::vector<int> neighbours(int rank) const;
};

struct Adjacency {
  std::vector<int> sources;
  std::vector<int> source_weights;
  std::vector<int> destinations;
  std::vector<int> destination_weights;
  bool weighted = false;
};

struct Topology {
  std::variant<Grid, Graph, Adjacency> shape;
};

// Of neighbour collectives: in the order of MPI-4.1, 8.6.
struct Neighbours {
  std::vector<int> sources;
  std::vector<int> destinations;
};
Neighbours neighbours_of(const Topology& topology, int rank);

}  // namespace holdfast::mpi
