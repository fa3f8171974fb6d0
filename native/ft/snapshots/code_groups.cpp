#include "ft/snapshots/code_groups.h"

#include <algorithm>
#include <functional>
#include <map>

namespace holdfast::ft {
namespace {

std::string code_text(const CodeWanted& wanted) {
  return "code (" + std::to_string(wanted.data) + ", " + std::to_string(wanted.parity) + ")";
}

Status check_parts(const CodeWanted& wanted) {
  if (wanted.data < 1) {
    return {Code::kConfigError, code_text(wanted) + ": accepted are 1 data part or more"};
  }
  if (wanted.parity < 0) {
    return {Code::kConfigError,
            code_text(wanted) + ": accepted are 1 parity part or more, or 0 for no code"};
  }
  if (wanted.data > kMostCodeParts - wanted.parity) {
    return {Code::kConfigError, code_text(wanted) + ": accepted are at most " +
                                    std::to_string(kMostCodeParts) + " parts together"};
  }
  return Status::ok();
}

// The ranks of each domain, domains in the order of their lowest ranks.
std::vector<std::vector<int>> by_domain(std::span<const std::string> domains) {
  std::vector<std::vector<int>> hosts;
  std::map<std::string, std::size_t> known;
  for (std::size_t rank = 0; rank < domains.size(); ++rank) {
    const auto [at, fresh] = known.try_emplace(domains[rank], hosts.size());
    if (fresh) hosts.emplace_back();
    hosts[at->second].push_back(static_cast<int>(rank));
  }
  return hosts;
}

CodePlan without_code(std::size_t ranks) {
  CodePlan plan;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    plan.groups.push_back({{static_cast<int>(rank)}, 0});
  }
  plan.said = "no code: each rank's state is in its own keeper only, and is lost with its host";
  return plan;
}

}  // namespace

Result<CodeWanted> code_for_hosts(int hosts, const CodeWanted& wanted) {
  TRY(check_parts(wanted));
  if (wanted.parity == 0) return wanted;
  if (hosts <= wanted.parity) {
    return Status{Code::kConfigError, code_text(wanted) + " on " + std::to_string(hosts) +
                                          " hosts; accepted are fewer parities than hosts"};
  }
  return CodeWanted{std::min(wanted.data, hosts - wanted.parity), wanted.parity};
}

// Ranks in the order of their hosts are dealt to G groups in turn. A host's ranks come to different
// groups if it has at most G; sizes differ by one at most, so none is below m + 1 if G <= R / (m +
// 1), nor above k + m if G >= R / (k + m). Where no G is both, as for 3 hosts and code (1, 1),
// groups have more data parts rather than fewer parities.
Result<CodePlan> code_groups(std::span<const std::string> domains, const CodeWanted& wanted) {
  TRY(check_parts(wanted));
  if (domains.empty()) return Status{Code::kConfigError, "0 ranks; accepted are 1 or more"};
  if (wanted.parity == 0) return without_code(domains.size());
  const auto hosts = by_domain(domains);
  const std::size_t parts =
      static_cast<std::size_t>(wanted.data) + static_cast<std::size_t>(wanted.parity);
  if (parts > hosts.size()) {
    return Status{Code::kConfigError,
                  code_text(wanted) + " needs " + std::to_string(parts) + " hosts, there are " +
                      std::to_string(hosts.size()) +
                      "; accepted are as many parts as hosts or fewer: lower the first number"};
  }
  std::size_t crowd = 0;
  for (const auto& ranks : hosts) crowd = std::max(crowd, ranks.size());
  const std::size_t least = static_cast<std::size_t>(wanted.parity) + 1;
  const std::size_t enough = (domains.size() + parts - 1) / parts;
  const std::size_t groups = std::max(crowd, std::min(enough, domains.size() / least));
  if (groups * least > domains.size()) {
    return Status{Code::kConfigError,
                  code_text(wanted) + ": one host has " + std::to_string(crowd) + " of " +
                      std::to_string(domains.size()) + " ranks, and each of them needs " +
                      std::to_string(wanted.parity) +
                      " others of other hosts; accepted are fewer "
                      "parities, or ranks that are spread more evenly"};
  }
  CodePlan plan;
  plan.groups.resize(groups, {{}, wanted.parity});
  std::size_t next = 0;
  for (const auto& ranks : hosts) {
    for (const int rank : ranks) plan.groups[next++ % groups].ranks.push_back(rank);
  }
  const auto count = [&](auto differs) {
    return std::count_if(plan.groups.begin(), plan.groups.end(),
                         [&](const auto& group) { return differs(group.ranks.size(), parts); });
  };
  for (const bool fewer : {true, false}) {
    const auto odd = fewer ? count(std::less<>()) : count(std::greater<>());
    if (odd == 0) continue;
    plan.said = std::to_string(odd) + " of " + std::to_string(groups) + " groups have " +
                (fewer ? "fewer" : "more") + " data parts than " + std::to_string(wanted.data);
  }
  return plan;
}

}  // namespace holdfast::ft
