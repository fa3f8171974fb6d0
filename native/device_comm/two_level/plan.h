// Who is where, and owns what, in calls that go in two levels (levels_script.h). Pure, from what
// all ranks know alike.
//
// A vector is cut into columns, as many as the host with the fewest ranks has: column c is the
// affair of each host's c-th rank, its owner there. A column is cut into parts, one a host. What a
// host has more ranks than there are columns gives its input, and fetches the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "device_comm/direct/plan.h"

namespace holdfast::device_comm {

// Ranks on one host, rising.
using HostRanks = std::vector<Rank>;

struct TwoLevelPlan {
  std::uint64_t bytes = 0;
  std::vector<HostRanks> hosts;  // those that have a rank, by number
  std::size_t columns = 0;

  // Where a rank is; the plan has it.
  std::size_t host_of(Rank rank) const;
  // Nothing: it owns none.
  std::optional<std::size_t> column_of(Rank rank) const;
  Cut column(std::size_t column) const;
  // Of the whole vector's bytes.
  Cut part(std::size_t column, std::size_t host) const;
  Rank owner(std::size_t column, std::size_t host) const { return hosts[host][column]; }
};

// `host_of`: by rank; `ranks`: whose data there is, rising.
TwoLevelPlan two_level_plan(const std::vector<int>& host_of, const std::vector<Rank>& ranks,
                            std::uint64_t bytes);

}  // namespace holdfast::device_comm
