// Fabric: where the ranks of a group are, and what the ways between them cost. It is a pure value,
// the same on all ranks; algorithms, their costs and the planner see nothing else of the topology.
//
// Ranks are in domains, and domains in larger ones (devices in hosts, hosts in racks, racks in
// sites), to any depth. A level is all domains of one kind. Level 0 is the whole, one domain with
// all ranks; the last level is the innermost. Domains of a level may differ in size, and ranks may
// be numbered in any order. Domains are numbered by level, in the order of their lowest ranks.
//
// Two ranks are joined by the link of the innermost level at which they share a domain. The ranks
// of a domain may share one way out of it, to all ranks outside; a level says how fast that is.
//
// A fabric is made of the host of each rank and of one link model. It may have a map of links on
// top, whose pairs differ as they like; so far only forests go by that.
// Why: docs/decisions/0129-a-fabric-has-levels.md
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "topology/cost_model.h"

namespace holdfast::topology {

class LinkMap;

// The whole, and as many as a map of links has names for: region, site, hall, row, rack, host, ...
inline constexpr int kMostFabricLevels = 9;
// The most ranks that a table of plans may name.
inline constexpr int kMostFabricRanks = 1 << 20;
inline constexpr std::size_t kMostLevelNameBytes = 64;

// Whether there are several domains, and one of them has several ranks. Algorithms of two levels
// are for such levels.
constexpr bool is_wide(int ranks, int domains) { return domains > 1 && domains < ranks; }

struct FabricLevel {
  std::string name;  // for people: "site", "host"
  LinkModel link{};  // between ranks that share a domain of this level, and none further in
  // Inverse bandwidth of the way out that all ranks of one such domain share. Nothing: it is not
  // known, or each rank has its own way out.
  std::optional<double> out_s_per_byte = std::nullopt;
  friend bool operator==(const FabricLevel&, const FabricLevel&) = default;
};

// The links of ranks of which no more is known than their hosts.
struct HostLinks {
  LinkModel link;                    // between hosts; where there is one host, between its ranks
  LinkModel inside_host = kShmLink;  // where there are several

  HostLinks(const LinkModel& all) : link(all) {}  // NOLINT(*-explicit-*): the usual case
  HostLinks(const LinkModel& between, const LinkModel& inside)
      : link(between), inside_host(inside) {}
};

class Fabric {
 public:
  // One rank, alone.
  Fabric();

  // `levels`: from the whole to the innermost. `paths`: by rank, its domain at each level but the
  // whole, from the outside in; any numbers will do that tell domains of one parent apart. Returns
  // kConfigError naming level or rank.
  static Result<Fabric> make(std::vector<FabricLevel> levels,
                             const std::vector<std::vector<int>>& paths);
  // The fabric of ranks whose hosts alone are known. The ranks of a host share its way out.
  static Result<Fabric> of_hosts(std::span<const int> host_of, const HostLinks& links);
  // As of_hosts(), for hosts that are in larger domains. `paths`: as of make(), hosts last, one
  // level at least. Between hosts all links are alike: what lines between larger domains do is not
  // known.
  static Result<Fabric> of_domains(const std::vector<std::vector<int>>& paths,
                                   const HostLinks& links);
  // As of_hosts(), for ranks that are spread over the hosts evenly, in order.
  static Result<Fabric> evenly(int ranks, int hosts, const HostLinks& links);

  int size() const { return static_cast<int>(tiers_[0].domain_of.size()); }
  // The number of the innermost level; 0: there is none but the whole.
  int depth() const { return static_cast<int>(tiers_.size()) - 1; }
  const FabricLevel& level(int level) const { return tier(level).about; }
  int domains(int level) const { return static_cast<int>(tier(level).members.size()); }
  int domain_of(Rank rank, int level) const;
  std::span<const Rank> members(int level, int domain) const;  // rising
  // Of the level's domains, the sizes of the largest and of the smallest.
  int largest(int level) const;
  int smallest(int level) const;

  // The innermost level at which the two ranks share a domain.
  int level_between(Rank a, Rank b) const;
  const LinkModel& link_between(Rank a, Rank b) const { return level(level_between(a, b)).link; }
  // The innermost level at which all ranks share a domain; its link joins the furthest of them.
  int common_level() const;

  // The same, with a map of its ranks.
  Fabric on_map(std::shared_ptr<const LinkMap> map) &&;
  const LinkMap* map() const { return map_.get(); }  // nullptr: there is none

  // The same, whose plans on the map start from those of `base`, where these ranks and others were.
  // `place`: by rank there, its rank here, or -1: it is gone.
  Fabric after(std::shared_ptr<const Fabric> base, std::vector<int> place) &&;
  const Fabric* base() const { return base_.get(); }  // nullptr: plans start from nothing
  std::span<const int> place() const { return place_; }

  bool is_wide(int level) const { return topology::is_wide(size(), domains(level)); }
  // The innermost level that is wide: every domain further in is a single rank.
  std::optional<int> wide_level() const;

  // Indexed by domain of a level: how often the domain is left by a ring that goes through the
  // ranks in this order, and from the last back to the first.
  std::vector<int> crossings(std::span<const Rank> ring, int level) const;

  // Text with a line for each level, and one with the ranks in their domains, as "((0 1) (2)) ((3)
  // (4 5))".
  std::string text() const;

  // Whether all plans for both are the same.
  bool is_like(const Fabric& other) const;
  friend bool operator==(const Fabric&, const Fabric&) = default;

 private:
  struct PlacedLevel {
    FabricLevel about;
    std::vector<int> domain_of;              // by rank
    std::vector<std::vector<Rank>> members;  // by domain
    friend bool operator==(const PlacedLevel&, const PlacedLevel&) = default;
  };

  explicit Fabric(std::vector<PlacedLevel> tiers) : tiers_(std::move(tiers)) {}
  const PlacedLevel& tier(int level) const;

  std::vector<PlacedLevel> tiers_;      // by level
  std::shared_ptr<const LinkMap> map_;  // owners: all fabrics of the view that it is of
  std::shared_ptr<const Fabric> base_;  // owners: likewise
  std::vector<int> place_;
};

}  // namespace holdfast::topology
