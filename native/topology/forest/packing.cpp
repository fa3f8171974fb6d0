#include "topology/forest/packing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace holdfast::topology {
namespace {

// The steepest potential: beyond it rounding drowns what the prices say.
constexpr int kMostDoublings = 10;
// A forest that is as near to the bound as this is good enough.
constexpr double kNearEnough = 1.004;
// Steps that a search may take in all; each costs about n^2 operations.
constexpr std::int64_t kMostOperations = 10'000'000;
constexpr int kFewestSteps = 120;
constexpr int kMostSteps = 6000;
// Steps at one steepness without progress before the next one.
constexpr int kPatience = 24;
constexpr double kProgress = 0.999;
constexpr double kSmallestWeight = 1e-9;
constexpr int kHalvings = 24;
// Where roots have parts of their own: how many of them move weight in one step. All of them would
// cost as much as so many steps, whose prices are newer.
constexpr int kRootsAStep = 4;

}  // namespace

Packing::Packing(const Capacities& capacities, const ForestTask& task)
    : capacities_(capacities),
      task_(task),
      n_(capacities.ranks),
      live_of_(capacities.pairs()),
      from_(capacities.ranks),
      down_(capacities.ranks),
      up_(capacities.ranks) {
  CHECK(n_ >= 2 && (task.up || task.down));
  if (!task.parts_of_roots.empty()) {
    CHECK(!task.root && task.parts_of_roots.size() == as_index(n_));
    const auto& parts = task.parts_of_roots;
    const auto whole = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
    CHECK(whole > 0);
    for (const std::int64_t part : parts) {
      parts_.push_back(static_cast<double>(part) / static_cast<double>(whole));
    }
  }
  find_live();
  use_.assign(live_.size(), 0);
  price_.assign(live_.size(), 0);
  change_.assign(live_.size(), 0);
  times_.assign(live_.size(), 0);
}

// A tree uses a pair once on the way up and once on the way down at most. So a pair decides nothing
// that is faster than what every rank sends or receives in any forest.
void Packing::find_live() {
  const auto add = [&](std::size_t capacity) {
    live_.push_back(capacity);
    rate_.push_back(static_cast<double>(capacities_.rate(capacity)));
    return static_cast<std::uint32_t>(live_.size() - 1);
  };
  const double most = most_payload(capacities_, task_) * (int{task_.up} + int{task_.down});
  for (std::size_t pair = 0; pair < capacities_.pairs(); ++pair) {
    const auto rate = static_cast<double>(capacities_.kbit_per_s[pair]);
    if (rate > 0 && rate <= most) live_of_[pair].push_back(add(pair));
  }
  for (std::size_t s = 0; s < capacities_.shared.size(); ++s) {
    const std::uint32_t number = add(capacities_.pairs() + s);
    for (const int u : capacities_.shared[s].from) {
      for (const int v : capacities_.shared[s].to) {
        if (u != v) live_of_[capacities_.pair(u, v)].push_back(number);
      }
    }
  }
}

double Packing::to_the_power(double value) const {
  for (int i = 0; i < doublings_; ++i) value *= value;
  return value;
}

double Packing::most() const { return *std::max_element(use_.begin(), use_.end()); }

void Packing::price() {
  const double most_used = most();
  double sum = 0;
  for (std::size_t c = 0; c < price_.size(); ++c) {
    const double part = most_used > 0 ? to_the_power(use_[c] / most_used) : 1;
    sum += part;
    price_[c] = part / rate_[c];
  }
  for (double& price : price_) price /= sum;
}

void Packing::price_edges() {
  for (int u = 0; u < n_; ++u) {
    for (int v = 0; v < n_; ++v) {
      const std::size_t pair = capacities_.pair(u, v);
      const bool has_way = u != v && capacities_.kbit_per_s[pair] > 0;
      double length = has_way ? 0 : LengthMatrix::kNoWay;
      for (const std::uint32_t c : live_of_[pair]) length += price_[c];
      from_.at(u, v) = length;
    }
  }
}

// The shortest tree under the prices, and the bound that it proves: every forest pays at least its
// length for each kbit, and all capacities together cost 1 (prices are scaled so).
bool Packing::find_cheapest() {
  price();
  price_edges();
  if (task_.down && !down_.contract(from_, true)) return false;
  if (task_.up && !up_.contract(from_)) return false;
  if (!parts_.empty()) {
    cheapest_length_ = 0;
    for (int r = 0; r < n_; ++r) {
      if (has_part(r)) cheapest_length_ += parts_[as_index(r)] * length_by_root(r);
    }
  } else {
    double least = std::numeric_limits<double>::infinity();
    int root = 0;
    for (int r = 0; r < n_; ++r) {
      if (task_.root && *task_.root != r) continue;
      const double length = length_by_root(r);
      if (length >= least) continue;
      least = length;
      root = r;
    }
    expand(root);
    cheapest_length_ = length_of(uses_of(cheapest_));
  }
  const double bound = 1 / cheapest_length_;
  if (bound_ == 0 || bound < bound_) bound_ = bound;
  return true;
}

double Packing::length_by_root(int root) const {
  return (task_.down ? down_.lengths_by_root()[as_index(root)] : 0) +
         (task_.up ? up_.lengths_by_root()[as_index(root)] : 0);
}

// The cheapest tree of this root.
void Packing::expand(int root) {
  cheapest_ = {};
  cheapest_.root = root;
  if (task_.down) down_.expand(root, cheapest_.down);
  if (task_.up) up_.expand(root, cheapest_.up);
}

std::vector<Packing::Use> Packing::uses_of(const PlannedTree& tree) {
  std::vector<Use> uses;
  const auto go = [&](int from, int to) {
    for (const std::uint32_t c : live_of_[capacities_.pair(from, to)]) {
      if (times_[c]++ == 0) uses.push_back({c, 0});
    }
  };
  for (int r = 0; r < n_; ++r) {
    if (r == tree.root) continue;
    if (!tree.up.empty()) go(r, tree.up[as_index(r)]);
    if (!tree.down.empty()) go(tree.down[as_index(r)], r);
  }
  for (Use& use : uses) use.times = std::exchange(times_[use.capacity], 0);
  return uses;
}

double Packing::length_of(const std::vector<Use>& uses) const {
  double length = 0;
  for (const Use& use : uses) length += use.times * price_[use.capacity];
  return length;
}

void Packing::add(const WeightedTree& planted, double weight) {
  for (const Use& use : planted.uses) {
    use_[use.capacity] += weight * use.times / rate_[use.capacity];
  }
}

void Packing::reckon() {
  std::fill(use_.begin(), use_.end(), 0.0);
  for (const WeightedTree& planted : planted_) add(planted, planted.weight);
}

// Adds weight to the cheapest tree, which may be there already; returns where it is.
std::size_t Packing::plant(double weight) {
  for (std::size_t i = 0; i < planted_.size(); ++i) {
    if (planted_[i].tree != cheapest_) continue;
    planted_[i].weight += weight;
    add(planted_[i], weight);
    return i;
  }
  planted_.push_back({cheapest_, uses_of(cheapest_), weight});
  add(planted_.back(), weight);
  return planted_.size() - 1;
}

// Plants one of so many first trees, or of each root one of as many.
void Packing::plant_first(int count) {
  if (parts_.empty()) plant(1.0 / count);
  for (int r = 0; r < n_; ++r) {
    if (!has_part(r)) continue;
    expand(r);
    plant(parts_[as_index(r)] / count);
  }
}

std::size_t Packing::dearest(std::optional<int> root) const {
  std::size_t found = planted_.size();
  double most_length = -1;
  for (std::size_t i = 0; i < planted_.size(); ++i) {
    if (planted_[i].weight <= 0 || (root && planted_[i].tree.root != *root)) continue;
    const double length = length_of(planted_[i].uses);
    if (length <= most_length) continue;
    most_length = length;
    found = i;
  }
  CHECK(found < planted_.size());
  return found;
}

std::size_t Packing::cheapest_planted(std::optional<int> root) const {
  std::size_t found = planted_.size();
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < planted_.size(); ++i) {
    if (root && planted_[i].tree.root != *root) continue;
    const double length = length_of(planted_[i].uses);
    if (length >= least) continue;
    least = length;
    found = i;
  }
  CHECK(found < planted_.size());
  return found;
}

// How much weight to move so that the potential falls most: where its slope is zero.
double Packing::room_for(std::size_t from, std::size_t to) {
  const double scale = 1 / most();
  for (const Use& use : planted_[to].uses) {
    change_[use.capacity] += scale * use.times / rate_[use.capacity];
  }
  for (const Use& use : planted_[from].uses) {
    change_[use.capacity] -= scale * use.times / rate_[use.capacity];
  }
  moved_.clear();
  for (const std::size_t i : {from, to}) {
    for (const Use& use : planted_[i].uses) {
      double& change = change_[use.capacity];
      if (change != 0) moved_.emplace_back(use_[use.capacity] * scale, change);
      change = 0;
    }
  }
  double low = 0;
  double high = planted_[from].weight;
  const auto slope = [&](double moved) {
    double sum = 0;
    for (const auto& [use, change] : moved_) {
      sum += change * to_the_power(std::max(0.0, use + moved * change));
    }
    return sum;
  };
  if (slope(high) <= 0) return high;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (slope(middle) <= 0 ? low : high) = middle;
  }
  return low;
}

void Packing::shift(std::size_t from, std::size_t to) {
  if (from == to) return;
  const double moved = room_for(from, to);
  add(planted_[from], -moved);
  add(planted_[to], moved);
  planted_[to].weight += moved;
  planted_[from].weight -= moved;
  if (planted_[from].weight < kSmallestWeight) {
    planted_[to].weight += planted_[from].weight;
    planted_.erase(planted_.begin() + static_cast<std::ptrdiff_t>(from));
    reckon();
  }
}

// One step: weight goes from the dearest tree to the cheapest.
void Packing::step() {
  if (!parts_.empty()) return step_by_roots();
  const std::size_t to = plant(0);
  shift(dearest(), to);
}

// The same among the trees of each of a few roots: those that gain most by it.
void Packing::step_by_roots() {
  std::vector<std::pair<double, int>> gains;  // negative, so that the largest comes first
  for (int r = 0; r < n_; ++r) {
    if (!has_part(r)) continue;
    const double now = length_of(planted_[dearest(r)].uses);
    gains.emplace_back(parts_[as_index(r)] * (length_by_root(r) - now), r);
  }
  std::sort(gains.begin(), gains.end());
  gains.resize(std::min(gains.size(), std::size_t{kRootsAStep}));
  for (const auto& [gain, root] : gains) {
    expand(root);
    const std::size_t to = plant(0);
    shift(dearest(root), to);
  }
}

bool Packing::run() {
  // A first forest: so many trees, each planted where the earlier ones left room.
  const int first = parts_.empty() ? std::min(2 * n_, kMostTrees) : std::max(2, kMostTrees / n_);
  for (int i = 0; i < first; ++i) {
    if (!find_cheapest()) return false;
    plant_first(first);
  }
  const std::int64_t a_step = std::int64_t{n_} * n_ * (parts_.empty() ? 1 : kRootsAStep);
  const std::int64_t affordable = kMostOperations / a_step;
  const int most_steps = parts_.empty() ? kMostSteps : kMostSteps / kRootsAStep;
  const int budget =
      static_cast<int>(std::clamp<std::int64_t>(affordable, kFewestSteps, most_steps));
  double best = most();
  int idle = 0;
  for (steps_ = 0; steps_ < budget; ++steps_) {
    if (!find_cheapest()) return false;
    if (most() * bound_ <= kNearEnough) break;
    step();
    const double now = most();
    idle = now < best * kProgress ? 0 : idle + 1;
    best = std::min(best, now);
    if (idle < kPatience) continue;
    if (doublings_ == kMostDoublings && idle > 10 * kPatience) break;
    if (doublings_ < kMostDoublings) {
      ++doublings_;
      idle = 0;
    }
  }
  lighten();
  return true;
}

// Shares in whole parts: rounded down, and what is left goes to those that lost most.
Forest Packing::take() {
  keep_the_heaviest(planted_.size());
  Forest forest;
  std::int64_t left = kWholeShare;
  std::vector<std::pair<double, std::size_t>> lost;
  for (std::size_t i = 0; i < planted_.size(); ++i) {
    const double exact = planted_[i].weight * static_cast<double>(kWholeShare);
    PlannedTree tree = std::move(planted_[i].tree);
    tree.share = static_cast<std::int64_t>(exact);
    left -= tree.share;
    lost.emplace_back(static_cast<double>(tree.share) - exact, i);
    forest.trees.push_back(std::move(tree));
  }
  std::stable_sort(lost.begin(), lost.end());
  for (std::size_t i = 0; left > 0; i = (i + 1) % lost.size(), --left) {
    ++forest.trees[lost[i].second].share;
  }
  std::erase_if(forest.trees, [](const PlannedTree& tree) { return tree.share == 0; });
  std::stable_sort(forest.trees.begin(), forest.trees.end(),
                   [](const PlannedTree& a, const PlannedTree& b) { return a.share > b.share; });
  const std::vector<double> used = usage(capacities_, forest.trees);
  double most_used = 0;
  for (std::size_t c = 0; c < used.size(); ++c) {
    const double seconds = used[c] > 0 ? used[c] / static_cast<double>(capacities_.rate(c)) : 0;
    if (seconds <= most_used) continue;
    most_used = seconds;
    forest.decides = c;
  }
  forest.kbit_per_s = 1 / most_used;
  forest.bound_kbit_per_s = bound_;
  forest.steps = steps_;
  return forest;
}

std::optional<Forest> make_forest(const Capacities& capacities, const ForestTask& task) {
  Packing packing(capacities, task);
  if (!packing.run()) return std::nullopt;
  return packing.take();
}

}  // namespace holdfast::topology
