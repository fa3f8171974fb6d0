#include "mpi/comms/group.h"

#include <algorithm>

#include "mpi/core/predefined.h"
#include "mpi/core/registry.h"

namespace holdfast::mpi {

Group::Group(std::vector<int> processes) : Object(kKind), processes_(std::move(processes)) {
  if (processes_.empty()) return;
  const auto [least, most] = std::minmax_element(processes_.begin(), processes_.end());
  const auto follows = [](int before, int after) { return after != before + 1; };
  consecutive_ =
      std::adjacent_find(processes_.begin(), processes_.end(), follows) == processes_.end();
  first_ = *least;
  if (consecutive_ || processes_.size() <= kMostSearched) return;
  ranks_.assign(static_cast<std::size_t>(*most - first_) + 1, kUndefined);
  for (int rank = 0; rank < size(); ++rank) {
    ranks_[static_cast<std::size_t>(process(rank) - first_)] = rank;
  }
}

int Group::rank_of(int process) const {
  const int offset = process - first_;
  if (consecutive_) return offset >= 0 && offset < size() ? offset : kUndefined;
  if (!ranks_.empty()) {
    const bool inside = offset >= 0 && static_cast<std::size_t>(offset) < ranks_.size();
    return inside ? ranks_[static_cast<std::size_t>(offset)] : kUndefined;
  }
  const auto at = std::find(processes_.begin(), processes_.end(), process);
  return at == processes_.end() ? kUndefined : static_cast<int>(at - processes_.begin());
}

int compare(const Group& a, const Group& b) {
  if (a.processes() == b.processes()) return kIdent;
  if (a.size() != b.size()) return kUnequal;
  const auto is_in_b = [&](int process) { return b.rank_of(process) != kUndefined; };
  const bool same = std::all_of(a.processes().begin(), a.processes().end(), is_in_b);
  return same ? kSimilar : kUnequal;
}

namespace {

// Members of `a` that are members of `b`, or are not, in the order of `a`.
std::vector<int> members_of(const Group& a, const Group& b, bool in_b) {
  std::vector<int> chosen;
  for (const int process : a.processes()) {
    if ((b.rank_of(process) != kUndefined) == in_b) chosen.push_back(process);
  }
  return chosen;
}

}  // namespace

std::vector<int> union_of(const Group& a, const Group& b) {
  std::vector<int> all = a.processes();
  const std::vector<int> more = members_of(b, a, false);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<int> intersection_of(const Group& a, const Group& b) { return members_of(a, b, true); }

std::vector<int> difference_of(const Group& a, const Group& b) { return members_of(a, b, false); }

void predefine_groups(Registry& registry) {
  registry.predefine<Group>(kGroupEmpty, std::vector<int>());
}

}  // namespace holdfast::mpi
