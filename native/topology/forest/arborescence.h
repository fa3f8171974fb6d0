// Least arborescences: of a graph whose directed edges have lengths, for every root the tree of
// least length in which each other vertex has one edge that enters it. One contraction of the graph
// serves all roots: O(n^2) for a dense graph, and O(n) more for each tree that is asked for.
//
// Source: Tarjan, "Finding optimum branchings", Networks 7, 1977; Boether, Kissig, Weyand,
// "Efficiently computing directed minimum spanning trees", ALENEX 2023, section 2 (contract until
// one vertex is left, then expand for a root).
//
// Ties are broken by number, so equal lengths give equal trees on every machine.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace holdfast::topology {

// Lengths by row and column, of n vertices each.
class LengthMatrix {
 public:
  explicit LengthMatrix(int n)
      : n_(n), at_(static_cast<std::size_t>(n) * static_cast<std::size_t>(n), kNoWay) {}

  static constexpr double kNoWay = std::numeric_limits<double>::infinity();

  int size() const { return n_; }
  double& at(int row, int column) { return at_[index(row, column)]; }
  double at(int row, int column) const { return at_[index(row, column)]; }
  double* row(int row) { return &at_[index(row, 0)]; }
  const double* row(int row) const { return &at_[index(row, 0)]; }

 private:
  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(n_) +
           static_cast<std::size_t>(column);
  }

  int n_;
  std::vector<double> at_;
};

class Arborescences {
 public:
  explicit Arborescences(int n);

  // `lengths.at(v, u)`: of the edge from u that enters v; not negative. `reversed`: of the edge
  // from v that enters u. Returns whether every vertex can be reached from every other one.
  bool contract(const LengthMatrix& lengths, bool reversed = false);
  // By vertex: the length of the tree that has it as the root.
  const std::vector<double>& lengths_by_root() const { return by_root_; }
  // By vertex: where its edge comes from; -1 for the root.
  void expand(int root, std::vector<int>& parents) const;

 private:
  struct Edge {
    std::int32_t from = -1;
    std::int32_t into = -1;
  };
  // A vertex, or a cycle of such that were contracted.
  struct Contracted {
    int parent = -1;
    std::vector<int> members;
    Edge entering;      // the shortest one that enters it
    double length = 0;  // of that, less what its parts have given already
  };

  void take_lengths(const LengthMatrix& lengths, bool reversed);
  bool choose(const std::vector<int>& active, int slot);
  void merge(const std::vector<int>& cycle, std::vector<int>& active);
  void sum_up();

  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(n_) +
           static_cast<std::size_t>(column);
  }

  int n_;
  std::vector<Contracted> nodes_;
  // By slot, of which each vertex has one; a contracted cycle takes that of its first member.
  std::vector<int> node_of_;
  std::vector<int> chosen_;     // the slot that the shortest entering edge comes from
  std::vector<double> length_;  // (slot, slot): the shortest edge into the first from the second
  std::vector<Edge> edge_;
  std::vector<double> by_root_;
};

}  // namespace holdfast::topology
