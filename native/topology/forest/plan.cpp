#include "topology/forest/plan.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/fnv.h"

namespace holdfast::topology {
namespace {

constexpr double kBitsPerByte = 8;
constexpr double kBitsPerKbit = 1e3;
constexpr double kNsPerS = 1e9;
constexpr double kKbitPerMbit = 1e3;
// A bound that is nearer than this is not worth a word.
constexpr double kMuchFaster = 1.5;

std::string rounded(double value, int digits) {
  char text[32];
  const auto found =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits);
  return {text, found.ptr};
}

// Nanoseconds from the furthest rank to the root, or from the root to it.
std::int64_t depth_ns(const LinkMap& map, int root, const std::vector<int>& way, bool is_up) {
  std::int64_t deepest = 0;
  for (int r = 0; !way.empty() && r < map.size(); ++r) {
    std::int64_t sum = 0;
    for (int at = r; at != root;) {
      const int next = way[as_index(at)];
      sum += is_up ? map.alpha_ns(at, next) : map.alpha_ns(next, at);
      at = next;
    }
    deepest = std::max(deepest, sum);
  }
  return deepest;
}

std::string mbit_text(std::int64_t kbit) {
  return rounded(static_cast<double>(kbit) / kKbitPerMbit, kbit % 1000 == 0 ? 0 : 1) + " Mbit/s";
}

std::string name_of(const Capacities& capacities, std::size_t capacity) {
  if (capacity >= capacities.pairs()) {
    return "\"" + capacities.shared[capacity - capacities.pairs()].name + "\"";
  }
  const auto n = static_cast<std::size_t>(capacities.ranks);
  return "the link from rank " + std::to_string(capacity / n) + " to rank " +
         std::to_string(capacity % n);
}

std::uint64_t digest_of(const LinkMap& map, const Forest& forest) {
  Fnv1a hash(map.digest());
  const auto number = [&](std::int64_t value) { hash.mix(static_cast<std::uint64_t>(value)); };
  for (const PlannedTree& tree : forest.trees) {
    number(tree.root);
    number(tree.share);
    for (const auto* way : {&tree.up, &tree.down}) {
      number(static_cast<std::int64_t>(way->size()));
      for (const int next : *way) number(next);
    }
  }
  return hash.value();
}

// The one rank that a capacity is all about, where it is: the way out of it or into it.
std::optional<int> rank_behind(const Capacities& capacities, std::size_t capacity) {
  if (capacity < capacities.pairs()) return std::nullopt;
  const SharedCapacity& shared = capacities.shared[capacity - capacities.pairs()];
  if (shared.from.size() == 1) return shared.from[0];
  if (shared.to.size() == 1) return shared.to[0];
  return std::nullopt;
}

std::string why_of(const LinkMap& map, const ForestTask& task, const ForestPlan& plan) {
  const Capacities& capacities = map.capacities();
  const Forest& forest = plan.forest;
  std::string why =
      std::to_string(forest.trees.size()) + (forest.trees.size() == 1 ? " tree; " : " trees; ") +
      plan.decides + " of " + mbit_text(capacities.rate(forest.decides)) +
      " decides: " + rounded(forest.bound_kbit_per_s / forest.kbit_per_s, 2) + " of the bound";
  const std::optional<int> rank = rank_behind(capacities, forest.decides);
  if (!rank || map.size() < 3 || task.root == rank) return why;
  const int gone[] = {*rank};
  const LinkMap left = map.without(gone);
  ForestTask rest = task;
  if (rest.root && *rest.root > *rank) --*rest.root;
  auto& parts = rest.parts_of_roots;
  if (!parts.empty()) parts.erase(parts.begin() + *rank);
  const auto without = make_forest(left.capacities(), rest);
  if (!without || without->kbit_per_s < kMuchFaster * forest.kbit_per_s) return why;
  return why + "; without rank " + std::to_string(*rank) + " " +
         rounded(without->kbit_per_s / forest.kbit_per_s, 1) + " times as fast";
}

}  // namespace

Result<ForestPlan> plan_forest(const LinkMap& map, const ForestTask& task, std::uint64_t bytes) {
  if (task.root && (*task.root < 0 || *task.root >= map.size())) {
    return Status{Code::kConfigError, "root is " + std::to_string(*task.root) +
                                          "; accepted: 0 to " + std::to_string(map.size() - 1)};
  }
  auto forest = make_forest(map.capacities(), task);
  if (!forest) {
    return Status{Code::kConfigError, "topology: some ranks cannot reach each other"};
  }
  ForestPlan plan;
  plan.forest = std::move(*forest);
  plan.bytes = bytes;
  std::int64_t deepest = 0;
  for (const PlannedTree& tree : plan.forest.trees) {
    deepest = std::max(deepest, depth_ns(map, tree.root, tree.up, true) +
                                    depth_ns(map, tree.root, tree.down, false));
  }
  const double kbit = static_cast<double>(bytes) * kBitsPerByte / kBitsPerKbit;
  plan.latency_s = static_cast<double>(deepest) / kNsPerS;
  plan.bound_s = kbit / plan.forest.bound_kbit_per_s;
  plan.predicted_s = kbit / plan.forest.kbit_per_s + plan.latency_s;
  plan.decides = name_of(map.capacities(), plan.forest.decides);
  plan.why = why_of(map, task, plan);
  plan.digest = digest_of(map, plan.forest);
  return plan;
}

}  // namespace holdfast::topology
