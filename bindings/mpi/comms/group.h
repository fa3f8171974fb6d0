// Group: an ordered set of processes of the world, each by its number there. A group never changes
// once it is made, so that communicators and threads share it freely.
#pragma once

#include <vector>

#include "mpi/core/constants.h"
#include "mpi/core/object.h"

namespace holdfast::mpi {

struct Group : Object {
  static constexpr Kind kKind = Kind::kGroup;

  // `processes`: numbers of processes of the world, none twice.
  explicit Group(std::vector<int> processes);

  int size() const { return static_cast<int>(processes_.size()); }
  const std::vector<int>& processes() const { return processes_; }
  // The process of `rank`, which is below size().
  int process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  // The rank of a process, in constant time; kUndefined for one that is no member.
  int rank_of(int process) const;

 private:
  // Below this a look at every member is quicker than a table, and costs no memory.
  static constexpr std::size_t kMostSearched = 16;

  std::vector<int> processes_;
  int first_ = 0;
  bool consecutive_ = false;  // first_, first_ + 1, ...: ranks follow without a look
  std::vector<int> ranks_;    // by process - first_, where there are too many to search
};

// MPI's results: kIdent, kSimilar or kUnequal.
int compare(const Group& a, const Group& b);

// In the order that MPI gives them (MPI-4.1, 7.3.2).
std::vector<int> union_of(const Group& a, const Group& b);
std::vector<int> intersection_of(const Group& a, const Group& b);
std::vector<int> difference_of(const Group& a, const Group& b);

}  // namespace holdfast::mpi
