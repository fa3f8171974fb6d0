#include "device_comm/two_level/plan.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace holdfast::device_comm {

std::size_t TwoLevelPlan::host_of(Rank rank) const {
  const auto at = std::find_if(hosts.begin(), hosts.end(), [&](const HostRanks& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
  CHECK(at != hosts.end());
  return static_cast<std::size_t>(at - hosts.begin());
}

std::optional<std::size_t> TwoLevelPlan::column_of(Rank rank) const {
  const HostRanks& ranks = hosts[host_of(rank)];
  const auto at =
      static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  return at < columns ? std::optional(at) : std::nullopt;
}

Cut TwoLevelPlan::column(std::size_t column) const { return cut(bytes, column, columns); }

Cut TwoLevelPlan::part(std::size_t column, std::size_t host) const {
  const Cut whole = this->column(column);
  const Cut part = cut(whole.bytes, host, hosts.size());
  return {whole.at + part.at, part.bytes};
}

TwoLevelPlan two_level_plan(const std::vector<int>& host_of, const std::vector<Rank>& ranks,
                            std::uint64_t bytes) {
  std::map<int, HostRanks> hosts;
  for (const Rank rank : ranks) {
    hosts[host_of[static_cast<std::size_t>(rank.value)]].push_back(rank);
  }
  TwoLevelPlan plan;
  plan.bytes = bytes;
  plan.columns = ranks.size();
  for (auto& [number, all] : hosts) {
    plan.columns = std::min(plan.columns, all.size());
    plan.hosts.push_back(std::move(all));
  }
  return plan;
}

}  // namespace holdfast::device_comm
