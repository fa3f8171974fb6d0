#include "topology/fabric.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "topology/link_map.h"

namespace holdfast::topology {
namespace {

Status refused(const std::string& what) { return {Code::kConfigError, "fabric: " + what}; }

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

Status check_level(std::size_t index, const FabricLevel& level) {
  const std::string where = "level " + std::to_string(index);
  if (level.name.empty() || level.name.size() > kMostLevelNameBytes) {
    return refused(where + ": a name of " + std::to_string(level.name.size()) +
                   " bytes; accepted: 1 to " + std::to_string(kMostLevelNameBytes));
  }
  const std::pair<std::string_view, double> numbers[] = {
      {"alpha_s", level.link.alpha_s},
      {"beta_s_per_byte", level.link.beta_s_per_byte},
      {"gamma_s_per_byte", level.link.gamma_s_per_byte},
      {"out_s_per_byte", level.out_s_per_byte.value_or(0)}};
  for (const auto& [name, value] : numbers) {
    if (std::isfinite(value) && value >= 0) continue;
    return refused(where + " (" + level.name + "): " + std::string(name) + " " + number(value) +
                   "; accepted: seconds, 0 or more");
  }
  return Status::ok();
}

Status check_sizes(const std::vector<FabricLevel>& levels,
                   const std::vector<std::vector<int>>& paths) {
  if (levels.empty() || levels.size() > kMostFabricLevels) {
    return refused(std::to_string(levels.size()) + " levels; accepted: 1 to " +
                   std::to_string(kMostFabricLevels) + ", the whole included");
  }
  if (levels[0].out_s_per_byte) return refused("level 0: a way out of the whole; accepted: none");
  if (paths.empty() || paths.size() > kMostFabricRanks) {
    return refused(std::to_string(paths.size()) + " ranks; accepted: 1 to " +
                   std::to_string(kMostFabricRanks));
  }
  for (std::size_t r = 0; r < paths.size(); ++r) {
    if (paths[r].size() + 1 == levels.size()) continue;
    return refused("rank " + std::to_string(r) + " is in " + std::to_string(paths[r].size()) +
                   " domains; accepted: one for each level but the whole, " +
                   std::to_string(levels.size() - 1));
  }
  return Status::ok();
}

std::string line_of(const FabricLevel& level) {
  std::string line = level.name + ": alpha " + number(level.link.alpha_s) + " beta " +
                     number(level.link.beta_s_per_byte) + " gamma " +
                     number(level.link.gamma_s_per_byte);
  if (level.out_s_per_byte) line += " out " + number(*level.out_s_per_byte);
  return line + "\n";
}

std::string domain_text(const Fabric& fabric, int level, int domain) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  for (const Rank rank : fabric.members(level, domain)) {
    if (level == fabric.depth()) {
      add(std::to_string(rank.value));
      continue;
    }
    // An inner domain is written where the loop meets its lowest rank.
    const int inner = fabric.domain_of(rank, level + 1);
    if (fabric.members(level + 1, inner)[0] != rank) continue;
    add("(" + domain_text(fabric, level + 1, inner) + ")");
  }
  return text;
}

}  // namespace

Fabric::Fabric() : tiers_(1) {
  tiers_[0].about.name = "all";
  tiers_[0].domain_of = {0};
  tiers_[0].members = {{Rank{0}}};
}

Result<Fabric> Fabric::make(std::vector<FabricLevel> levels,
                            const std::vector<std::vector<int>>& paths) {
  TRY(check_sizes(levels, paths));
  for (std::size_t k = 0; k < levels.size(); ++k) TRY(check_level(k, levels[k]));
  std::vector<int> parents(paths.size(), 0);
  std::vector<PlacedLevel> tiers;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    std::map<std::pair<int, int>, int> numbers;  // of a domain, by its parent and its own number
    PlacedLevel tier{std::move(levels[k]), {}, {}};
    for (std::size_t r = 0; r < paths.size(); ++r) {
      const std::pair own{parents[r], k == 0 ? 0 : paths[r][k - 1]};
      const int next = static_cast<int>(numbers.size());
      const int domain = numbers.try_emplace(own, next).first->second;
      if (domain == next) tier.members.emplace_back();
      tier.domain_of.push_back(domain);
      tier.members[static_cast<std::size_t>(domain)].push_back({static_cast<std::int32_t>(r)});
    }
    parents = tier.domain_of;
    tiers.push_back(std::move(tier));
  }
  return Fabric(std::move(tiers));
}

Result<Fabric> Fabric::of_hosts(std::span<const int> host_of, const HostLinks& links) {
  std::vector<std::vector<int>> paths;
  paths.reserve(host_of.size());
  for (const int host : host_of) paths.push_back({host});
  return of_domains(paths, links);
}

Result<Fabric> Fabric::of_domains(const std::vector<std::vector<int>>& paths,
                                  const HostLinks& links) {
  const LinkModel& link = links.link;
  const bool one_host = std::ranges::all_of(
      paths, [&](const std::vector<int>& path) { return path == paths.front(); });
  // A group on one host has no use for what is around it.
  if (one_host) {
    return make({{"all", link}, {"host", link, link.beta_s_per_byte}},
                std::vector<std::vector<int>>(paths.size(), {0}));
  }
  std::vector<FabricLevel> levels(paths.front().size(), {"domain", link});
  levels.front().name = "all";
  levels.push_back({"host", links.inside_host, link.beta_s_per_byte});
  return make(std::move(levels), paths);
}

Result<Fabric> Fabric::evenly(int ranks, int hosts, const HostLinks& links) {
  if (ranks < 1 || ranks > kMostFabricRanks || hosts < 1 || hosts > ranks) {
    return refused(std::to_string(ranks) + " ranks on " + std::to_string(hosts) +
                   " hosts; accepted: 1 to " + std::to_string(kMostFabricRanks) +
                   ", and no more hosts than ranks");
  }
  std::vector<int> host_of;
  for (std::int64_t r = 0; r < ranks; ++r) host_of.push_back(static_cast<int>(r * hosts / ranks));
  return of_hosts(host_of, links);
}

Fabric Fabric::on_map(std::shared_ptr<const LinkMap> map) && {
  CHECK(map == nullptr || map->size() == size());
  map_ = std::move(map);
  return std::move(*this);
}

Fabric Fabric::after(std::shared_ptr<const Fabric> base, std::vector<int> place) && {
  CHECK(place.size() == static_cast<std::size_t>(base->size()));
  base_ = std::move(base);
  place_ = std::move(place);
  return std::move(*this);
}

bool Fabric::is_like(const Fabric& other) const {
  const auto are_like = [](const auto* a, const auto* b, auto compare) {
    return a == b || (a != nullptr && b != nullptr && compare(*a, *b));
  };
  const auto same_map = [](const LinkMap& a, const LinkMap& b) { return a.digest() == b.digest(); };
  const auto same_base = [](const Fabric& a, const Fabric& b) { return a.is_like(b); };
  return tiers_ == other.tiers_ && place_ == other.place_ &&
         are_like(map(), other.map(), same_map) && are_like(base(), other.base(), same_base);
}

const Fabric::PlacedLevel& Fabric::tier(int level) const {
  CHECK(level >= 0 && level <= depth());
  return tiers_[static_cast<std::size_t>(level)];
}

int Fabric::domain_of(Rank rank, int level) const {
  CHECK(rank.value >= 0 && rank.value < size());
  return tier(level).domain_of[static_cast<std::size_t>(rank.value)];
}

std::span<const Rank> Fabric::members(int level, int domain) const {
  CHECK(domain >= 0 && domain < domains(level));
  return tier(level).members[static_cast<std::size_t>(domain)];
}

int Fabric::largest(int level) const {
  const auto& all = tier(level).members;
  return static_cast<int>(std::ranges::max_element(all, {}, &std::vector<Rank>::size)->size());
}

int Fabric::smallest(int level) const {
  const auto& all = tier(level).members;
  return static_cast<int>(std::ranges::min_element(all, {}, &std::vector<Rank>::size)->size());
}

int Fabric::level_between(Rank a, Rank b) const {
  int level = depth();
  while (domain_of(a, level) != domain_of(b, level)) --level;
  return level;
}

int Fabric::common_level() const {
  int level = depth();
  while (domains(level) > 1) --level;
  return level;
}

std::optional<int> Fabric::wide_level() const {
  for (int level = depth(); level > 0; --level) {
    if (is_wide(level)) return level;
  }
  return std::nullopt;
}

std::vector<int> Fabric::crossings(std::span<const Rank> ring, int level) const {
  std::vector<int> count(static_cast<std::size_t>(domains(level)), 0);
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const int from = domain_of(ring[i], level);
    const int to = domain_of(ring[(i + 1) % ring.size()], level);
    if (from != to) ++count[static_cast<std::size_t>(from)];
  }
  return count;
}

std::string Fabric::text() const {
  std::string lines;
  for (const PlacedLevel& tier : tiers_) lines += line_of(tier.about);
  return lines + domain_text(*this, 0, 0) + "\n";
}

}  // namespace holdfast::topology
