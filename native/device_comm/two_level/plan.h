// Which ranks are on which host, and what each owns, in calls that go in two levels
// (two_level/script.h). Pure, from what all ranks know alike.
//
// A vector is cut into columns, as many as the host with the fewest ranks has ranks: each host's
// c-th rank owns column c there. A column is cut into parts, one per host. Ranks of a host beyond
// the number of columns give their input, and fetch the result.
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
  std::vector<HostRanks> hosts;  // hosts that have a rank, by number
  std::size_t columns = 0;

  // The host of a rank of the plan, as an index of `hosts`.
  std::size_t host_of(Rank rank) const;
  // Nothing: the rank owns no column.
  std::optional<std::size_t> column_of(Rank rank) const;
  Cut column(std::size_t column) const;
  // In bytes of the whole vector.
  Cut part(std::size_t column, std::size_t host) const;
  Rank owner(std::size_t column, std::size_t host) const { return hosts[host][column]; }
};

// `host_of`: by rank; `ranks`: those whose data there is, rising.
TwoLevelPlan two_level_plan(const std::vector<int>& host_of, const std::vector<Rank>& ranks,
                            std::uint64_t bytes);

}  // namespace holdfast::device_comm
