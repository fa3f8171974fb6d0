#include "topology.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comm/algorithms/algorithms.h"
#include "comm/plan/map_price.h"
#include "comm/schedule/verifier.h"
#include "gil.h"
#include "raise.h"
#include "topology/forest/plan.h"
#include "topology/link_map.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::bindings {
namespace {

struct Asked {
  topology::LinkMap map;
  comm::Collective collective{};
  topology::ForestTask task;
};

Result<Asked> ask(const std::string& json, const std::string& collective, int root,
                  const std::vector<int>& without) {
  Asked asked;
  constexpr std::array kPlanned{comm::Collective::kAllReduce, comm::Collective::kReduceScatter,
                                comm::Collective::kAllGather, comm::Collective::kBroadcast,
                                comm::Collective::kReduce};
  const auto found = comm::find_collective(collective);
  if (!found || std::find(kPlanned.begin(), kPlanned.end(), *found) == kPlanned.end()) {
    return Status{Code::kConfigError,
                  "collective " + collective +
                      "; accepted: all_reduce, broadcast, reduce, reduce_scatter, all_gather"};
  }
  asked.collective = *found;
  Result<topology::LinkMap> map = topology::LinkMap::parse(json);
  if (!map.is_ok()) return map.status();
  std::vector<int> gone = without;
  std::sort(gone.begin(), gone.end());
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  const int size = map.value().size();
  if (!gone.empty() && (gone.front() < 0 || gone.back() >= size)) {
    return Status{Code::kConfigError,
                  "without rank " + std::to_string(gone.front() < 0 ? gone.front() : gone.back()) +
                      "; accepted: 0 to " + std::to_string(size - 1)};
  }
  if (static_cast<int>(gone.size()) > size - 2) {
    return Status{Code::kConfigError, "without " + std::to_string(gone.size()) + " of " +
                                          std::to_string(size) +
                                          " ranks; accepted: two are left at least"};
  }
  asked.map = gone.empty() ? std::move(map).value() : map.value().without(gone);
  asked.task = comm::forest_task(asked.collective, asked.map.size(), Rank{root});
  return asked;
}

using Traffic = std::vector<std::tuple<int, int, double>>;

// What goes over each pair's link, as a share of the payload.
Traffic traffic_of(const topology::LinkMap& map, const topology::Forest& forest) {
  const std::vector<double> used = topology::usage(map.capacities(), forest.trees);
  Traffic traffic;
  for (int from = 0; from < map.size(); ++from) {
    for (int to = 0; to < map.size(); ++to) {
      const double share = used[map.capacities().pair(from, to)];
      if (share > 0) traffic.emplace_back(from, to, share);
    }
  }
  return traffic;
}

// (root, up, down, share of 65536) of each.
using TreeTuple = std::tuple<int, std::vector<int>, std::vector<int>, std::int64_t>;

std::vector<TreeTuple> trees_of(const topology::Forest& forest) {
  std::vector<TreeTuple> trees;
  for (const topology::PlannedTree& tree : forest.trees) {
    trees.emplace_back(tree.root, tree.up, tree.down, tree.share);
  }
  return trees;
}

// The algorithm that a group of the map's ranks takes, each on a host of its own, and the seconds
// that it is predicted to take; nothing for groups too large to be priced.
std::optional<std::tuple<std::string_view, double>> choice_of(const Asked& asked, int root,
                                                              std::uint64_t bytes) {
  if (asked.map.size() > comm::kMostPricedRanks) return std::nullopt;
  std::vector<int> hosts(static_cast<std::size_t>(asked.map.size()));
  std::iota(hosts.begin(), hosts.end(), 0);
  const topology::Fabric fabric = topology::Fabric::of_hosts(hosts, topology::kTcpLink)
                                      .value()
                                      .on_map(std::make_shared<const topology::LinkMap>(asked.map));
  const comm::Problem problem{asked.collective, bytes, fabric, false, Rank{root}};
  const auto candidates = comm::candidates_on_map(problem);
  const comm::MapCandidate& best = comm::cheapest(candidates, bytes);
  return std::tuple(best.row->algorithm, best.price.seconds(bytes));
}

nb::dict plan_forest(const std::string& json, const std::string& collective, int root,
                     std::uint64_t bytes, const std::vector<int>& without) {
  std::optional<std::tuple<std::string_view, double>> choice;
  const auto make = [&]() -> Result<std::pair<Asked, topology::ForestPlan>> {
    Result<Asked> asked = ask(json, collective, root, without);
    if (!asked.is_ok()) return asked.status();
    Result<topology::ForestPlan> plan =
        topology::plan_forest(asked.value().map, asked.value().task, bytes);
    if (!plan.is_ok()) return plan.status();
    choice = choice_of(asked.value(), root, bytes);
    return std::pair{std::move(asked).value(), std::move(plan).value()};
  };
  auto made = [&] {
    const GilReleased released;
    return make();
  }();
  const auto [asked, plan] = value_or_raise(std::move(made));
  nb::dict result;
  result["ranks"] = asked.map.size();
  result["map_digest"] = asked.map.digest();
  result["trees"] = trees_of(plan.forest);
  result["traffic"] = traffic_of(asked.map, plan.forest);
  result["predicted_s"] = plan.predicted_s;
  result["latency_s"] = plan.latency_s;
  result["bound_s"] = plan.bound_s;
  result["decides"] = plan.decides;
  result["why"] = plan.why;
  result["digest"] = plan.digest;
  result["choice"] = choice;
  return result;
}

// (ranks, kbit/s by pair, [(name, kbit/s, from, to)]).
using CapacitiesTuple = std::tuple<
    int, std::vector<std::int64_t>,
    std::vector<std::tuple<std::string, std::int64_t, std::vector<int>, std::vector<int>>>>;

CapacitiesTuple map_capacities(const std::string& json, const std::vector<int>& without) {
  const Asked asked = value_or_raise(ask(json, "all_reduce", 0, without));
  const topology::Capacities& all = asked.map.capacities();
  CapacitiesTuple result{all.ranks, all.kbit_per_s, {}};
  for (const topology::SharedCapacity& one : all.shared) {
    std::get<2>(result).emplace_back(one.name, one.kbit_per_s, one.from, one.to);
  }
  return result;
}

// (by rank, its domains from the outside in; ns by pair; digest).
std::tuple<std::vector<std::vector<std::string>>, std::vector<std::int64_t>, std::uint64_t>
map_facts(const std::string& json) {
  const Asked asked = value_or_raise(ask(json, "all_reduce", 0, {}));
  std::vector<std::vector<std::string>> domains;
  std::vector<std::int64_t> alpha_ns;
  for (int rank = 0; rank < asked.map.size(); ++rank) {
    domains.push_back(asked.map.domains(rank));
    for (int to = 0; to < asked.map.size(); ++to) alpha_ns.push_back(asked.map.alpha_ns(rank, to));
  }
  return {std::move(domains), std::move(alpha_ns), asked.map.digest()};
}

std::string canonical_map(const std::string& json) {
  return value_or_raise(topology::LinkMap::parse(json)).to_json();
}

// ---- schedules ----

using SlotTuple = std::tuple<std::string, std::uint32_t, std::uint32_t>;

SlotTuple tuple_of(const comm::Slot& slot) {
  switch (slot.space) {
    case comm::Space::kInput: return {"input", slot.chunk, 1};
    case comm::Space::kOutput: return {"output", slot.chunk, 1};
    case comm::Space::kScratch: return {"scratch", slot.chunk, 1};
  }
  return {"", 0, 0};
}

// (do, peer, ordinal, to, from, with, after); nothing for what the step does not have.
using StepTuple = std::tuple<std::string, std::optional<int>, std::optional<std::uint32_t>,
                             std::optional<SlotTuple>, std::optional<SlotTuple>,
                             std::optional<SlotTuple>, std::vector<std::uint32_t>>;

StepTuple tuple_of(const comm::Step& step) {
  std::vector<std::uint32_t> after;
  for (const comm::Dependency& dep : step.deps) after.push_back(dep.step);
  const SlotTuple to = tuple_of(step.dst);
  const SlotTuple from = tuple_of(step.lhs);
  switch (step.kind) {
    case comm::StepKind::kSend: return {"send", step.peer.value, step.ordinal, {}, from, {}, after};
    case comm::StepKind::kRecv: return {"recv", step.peer.value, step.ordinal, to, {}, {}, after};
    case comm::StepKind::kReduce: return {"reduce", {}, {}, to, from, tuple_of(step.rhs), after};
    default: return {"copy", {}, {}, to, from, {}, after};
  }
}

// The proven schedules of a plan's trees: the share of each chunk, and the steps of each rank.
std::tuple<std::vector<std::uint32_t>, std::vector<std::vector<StepTuple>>> forest_steps(
    const std::string& json, const std::string& collective, int root,
    const std::vector<int>& without) {
  const auto make = [&]() -> Result<std::vector<comm::Schedule>> {
    Result<Asked> asked = ask(json, collective, root, without);
    if (!asked.is_ok()) return asked.status();
    const Asked& what = asked.value();
    const auto plan = topology::plan_forest(what.map, what.task, 0);
    if (!plan.is_ok()) return plan.status();
    std::vector<comm::Schedule> schedules;
    for (int r = 0; r < what.map.size(); ++r) {
      comm::BuildSpec spec;
      spec.collective = what.collective;
      spec.rank = Rank{r};
      spec.size = what.map.size();
      spec.root = Rank{what.task.root.value_or(0)};
      schedules.push_back(comm::build_trees(spec, plan.value().forest.trees));
    }
    TRY(comm::verify(schedules));
    return schedules;
  };
  auto made = [&] {
    const GilReleased released;
    return make();
  }();
  const std::vector<comm::Schedule> schedules = value_or_raise(std::move(made));
  std::vector<std::vector<StepTuple>> all;
  for (const comm::Schedule& schedule : schedules) {
    all.emplace_back();
    for (const comm::Step& step : schedule.steps) all.back().push_back(tuple_of(step));
  }
  return {schedules[0].shares, std::move(all)};
}

}  // namespace

void bind_topology(nb::module_& m) {
  m.def("plan_forest", plan_forest, "map"_a, "collective"_a, "root"_a, "bytes"_a, "without"_a);
  m.def("map_capacities", map_capacities, "map"_a, "without"_a);
  m.def("canonical_map", canonical_map, "map"_a);
  m.def("map_facts", map_facts, "map"_a);
  m.def("forest_steps", forest_steps, "map"_a, "collective"_a, "root"_a, "without"_a);
}

}  // namespace holdfast::bindings
