// The search for a forest: see forest.h.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "topology/forest/arborescence.h"
#include "topology/forest/forest.h"

namespace holdfast::topology {

class Packing {
 public:
  Packing(const Capacities& capacities, const ForestTask& task);

  // Returns whether there is a forest at all.
  bool run();
  Forest take();

 private:
  // How often a tree uses a capacity.
  struct Use {
    std::uint32_t capacity;
    std::uint32_t times;
  };
  struct WeightedTree {
    PlannedTree tree;
    std::vector<Use> uses;
    double weight = 0;
  };

  void find_live();
  bool find_cheapest();
  void expand(int root);
  double length_by_root(int root) const;
  bool has_part(int root) const { return !parts_.empty() && parts_[as_index(root)] > 0; }
  void price();
  void price_edges();
  std::size_t plant(double weight);
  void plant_first(int count);
  void step();
  void step_by_roots();
  void keep_the_heaviest(std::size_t count);
  void settle(int steps);
  // Among the trees with this root; nothing: among all.
  std::size_t dearest(std::optional<int> root = {}) const;
  std::size_t cheapest_planted(std::optional<int> root = {}) const;
  void shift(std::size_t from, std::size_t to);
  double room_for(std::size_t from, std::size_t to);
  void add(const WeightedTree& planted, double weight);
  void reckon();
  double length_of(const std::vector<Use>& uses) const;
  std::vector<Use> uses_of(const PlannedTree& tree);
  double most() const;
  double to_the_power(double value) const;
  void lighten();

  const Capacities& capacities_;
  ForestTask task_;
  int n_;
  std::vector<double> parts_;  // by root, of the payload; empty: roots are free
  int doublings_ = 3;          // prices rise with the use to the power of 2 to this
  // Capacities that may decide: a pair's own rate does not where a network card is slower. All
  // lists below are by their number among these.
  std::vector<std::size_t> live_;
  std::vector<std::vector<std::uint32_t>> live_of_;  // by pair: which ones its edge uses
  std::vector<double> rate_;
  std::vector<double> use_;    // seconds a kbit of payload
  std::vector<double> price_;  // of a kbit
  LengthMatrix from_;          // (u, v): the price of the edge from u to v
  Arborescences down_;
  Arborescences up_;
  std::vector<WeightedTree> planted_;
  PlannedTree cheapest_;
  double cheapest_length_ = 0;
  double bound_ = 0;
  int steps_ = 0;
  std::vector<std::pair<double, double>> moved_;  // scratch of room_for: use now, and its change
  std::vector<std::uint32_t> times_;              // scratch of uses_of, by capacity
  std::vector<double> change_;                    // scratch of room_for, by capacity
};

}  // namespace holdfast::topology
