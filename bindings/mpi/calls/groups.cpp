// Groups: MPI-4.1, 7.3.
#include <algorithm>
#include <string>
#include <vector>

#include "mpi/calls.h"
#include "mpi/calls/made.h"
#include "mpi/comms/comm.h"
#include "mpi/comms/group.h"
#include "mpi/core/predefined.h"
#include "mpi/core/process.h"

namespace holdfast::mpi {

namespace {

// What a call made; MPI_GROUP_EMPTY where it has no members.
int give(Call& call, std::vector<int> processes, Group*& newgroup) {
  if (processes.empty()) {
    newgroup = static_cast<Group*>(process().registry.find(Kind::kGroup, kGroupEmpty));
    return kSuccess;
  }
  return give_made(call, process().registry.make<Group>(std::move(processes)), "groups", newgroup);
}

std::string accepted_ranks(const Group& group) {
  if (group.size() == 0) return "accepted is none, as the group is empty";
  return "accepted are 0 to " + std::to_string(group.size() - 1);
}

int refuse_negative(Call& call, const char* argument, int value) {
  return call.fail(kErrArg, std::string(argument) + " is " + std::to_string(value) +
                                ", accepted are numbers from 0");
}

// Ranks as they were given, each at most once: in `listed`, and, by rank, in `is_listed`.
struct ListedRanks {
  std::vector<int> ranks;
  std::vector<bool> is_listed;

  explicit ListedRanks(const Group& group) : is_listed(static_cast<std::size_t>(group.size())) {}
};

int list(Call& call, const Group& group, std::int64_t rank, const std::string& argument,
         ListedRanks& listed) {
  if (rank < 0 || rank >= group.size()) {
    return call.fail(kErrRank,
                     argument + " is " + std::to_string(rank) + ", " + accepted_ranks(group));
  }
  if (listed.is_listed[static_cast<std::size_t>(rank)]) {
    return call.fail(kErrRank, argument + " is " + std::to_string(rank) +
                                   " for the second time, accepted is each rank once");
  }
  listed.is_listed[static_cast<std::size_t>(rank)] = true;
  listed.ranks.push_back(static_cast<int>(rank));
  return kSuccess;
}

int list_ranks(Call& call, const Group& group, int n, const IntArray& ranks, ListedRanks& listed) {
  if (n < 0) return refuse_negative(call, "n", n);
  if (n > 0 && ranks.is_null()) return call.fail(kErrArg, "ranks is a null pointer");
  for (int i = 0; i < n; ++i) {
    const int code =
        list(call, group, ranks[static_cast<std::size_t>(i)], element("ranks", i), listed);
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

int list_range(Call& call, const Group& group, int i, const IntArray& ranges, ListedRanks& listed) {
  const auto at = static_cast<std::size_t>(i) * 3;
  const std::int64_t first = ranges[at];
  const std::int64_t last = ranges[at + 1];
  const std::int64_t stride = ranges[at + 2];
  const std::string argument = element("ranges", i);
  if (stride == 0) {
    return call.fail(kErrArg, argument + " has a stride of 0, accepted is any other");
  }
  // Of a range of which no rank is in the group, MPI wants none to be: it is empty by its stride.
  if (first < 0 || first >= group.size()) {
    return call.fail(
        kErrRank, argument + " begins at " + std::to_string(first) + ", " + accepted_ranks(group));
  }
  for (std::int64_t rank = first; stride > 0 ? rank <= last : rank >= last; rank += stride) {
    const int code = list(call, group, rank, "a rank of " + argument, listed);
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

int list_ranges(Call& call, const Group& group, int n, const IntArray& ranges,
                ListedRanks& listed) {
  if (n < 0) return refuse_negative(call, "n", n);
  if (n > 0 && ranges.is_null()) return call.fail(kErrArg, "ranges is a null pointer");
  for (int i = 0; i < n; ++i) {
    const int code = list_range(call, group, i, ranges, listed);
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

int give_listed(Call& call, const Group& group, const ListedRanks& listed, Group*& newgroup) {
  std::vector<int> processes;
  processes.reserve(listed.ranks.size());
  for (const int rank : listed.ranks) processes.push_back(group.process(rank));
  return give(call, std::move(processes), newgroup);
}

int give_others(Call& call, const Group& group, const ListedRanks& listed, Group*& newgroup) {
  std::vector<int> processes;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!listed.is_listed[static_cast<std::size_t>(rank)]) processes.push_back(group.process(rank));
  }
  return give(call, std::move(processes), newgroup);
}

}  // namespace

namespace body {

int Group_size(Call&, Group* group, int& size) {
  size = group->size();
  return kSuccess;
}

int Group_rank(Call&, Group* group, int& rank) {
  rank = group->rank_of(process().world->rank);
  return kSuccess;
}

int Group_compare(Call&, Group* group1, Group* group2, int& result) {
  result = compare(*group1, *group2);
  return kSuccess;
}

int Group_translate_ranks(Call& call, Group* group1, int n, const IntArray& ranks1, Group* group2,
                          const OutInts& ranks2) {
  if (n < 0) return refuse_negative(call, "n", n);
  if (n > 0 && ranks1.is_null()) return call.fail(kErrArg, "ranks1 is a null pointer");
  if (n > 0 && ranks2.is_null()) return call.fail(kErrArg, "ranks2 is a null pointer");
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    const std::int64_t rank = ranks1[i];
    if (rank == kProcNull) {
      ranks2.set(i, kProcNull);
      continue;
    }
    if (rank < 0 || rank >= group1->size()) {
      return call.fail(kErrRank, element("ranks1", i) + " is " + std::to_string(rank) + ", " +
                                     accepted_ranks(*group1) + " and MPI_PROC_NULL");
    }
    ranks2.set(i, group2->rank_of(group1->process(static_cast<int>(rank))));
  }
  return kSuccess;
}

int Group_union(Call& call, Group* group1, Group* group2, Group*& newgroup) {
  return give(call, union_of(*group1, *group2), newgroup);
}

int Group_intersection(Call& call, Group* group1, Group* group2, Group*& newgroup) {
  return give(call, intersection_of(*group1, *group2), newgroup);
}

int Group_difference(Call& call, Group* group1, Group* group2, Group*& newgroup) {
  return give(call, difference_of(*group1, *group2), newgroup);
}

int Group_incl(Call& call, Group* group, int n, const IntArray& ranks, Group*& newgroup) {
  ListedRanks listed(*group);
  const int code = list_ranks(call, *group, n, ranks, listed);
  return code != kSuccess ? code : give_listed(call, *group, listed, newgroup);
}

int Group_excl(Call& call, Group* group, int n, const IntArray& ranks, Group*& newgroup) {
  ListedRanks listed(*group);
  const int code = list_ranks(call, *group, n, ranks, listed);
  return code != kSuccess ? code : give_others(call, *group, listed, newgroup);
}

int Group_range_incl(Call& call, Group* group, int n, const IntArray& ranges, Group*& newgroup) {
  ListedRanks listed(*group);
  const int code = list_ranges(call, *group, n, ranges, listed);
  return code != kSuccess ? code : give_listed(call, *group, listed, newgroup);
}

int Group_range_excl(Call& call, Group* group, int n, const IntArray& ranges, Group*& newgroup) {
  ListedRanks listed(*group);
  const int code = list_ranges(call, *group, n, ranges, listed);
  return code != kSuccess ? code : give_others(call, *group, listed, newgroup);
}

int Group_free(Call&, Group*& group) {
  process().registry.take_back(group);
  group = nullptr;
  return kSuccess;
}

}  // namespace body
}  // namespace holdfast::mpi
