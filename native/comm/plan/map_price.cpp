#include "comm/plan/map_price.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"
#include "comm/schedule/fusion.h"
#include "topology/forest/proof.h"

namespace holdfast::comm {
namespace {

// What a message costs the rank that sends or receives it, whatever its size: system calls, and
// waking up. Measured over loopback, as the constants of cost_model.h.
constexpr double kMessageSeconds = 5e-6;
constexpr double kSecondsPerNs = 1e-9;
constexpr double kBytesPerGbyte = 1e9;
constexpr double kByteKbits = 8 / 1e3;

// When a step ends if messages had no bytes, and when it begins and ends if they had no latency, by
// byte of payload.
struct StepTimes {
  double ends_s = 0;
  double begins = 0;
  double ends = 0;
};

class MapRun {
 public:
  MapRun(const topology::LinkMap& map, const std::vector<Schedule>& schedules)
      : map_(map), schedules_(schedules), traffic_(map.capacities().pairs(), 0) {
    find_slowest();
    for (const Schedule& s : schedules) {
      times_.emplace_back();
      times_.back().reserve(s.steps.size());
      parts_.push_back(parts_of(s));
      fused_.push_back(find_fusions(s));
    }
    sent_.resize(map.capacities().pairs());
  }

  MapPrice run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < schedules_.size(); ++r) moved = advance(r) || moved;
    }
    MapPrice price;
    std::size_t most_messages = 0;
    for (std::size_t r = 0; r < schedules_.size(); ++r) {
      CHECK(times_[r].size() == schedules_[r].steps.size());  // they are proven
      for (const StepTimes& times : times_[r]) {
        price.latency_s = std::max(price.latency_s, times.ends_s);
        price.s_per_byte = std::max(price.s_per_byte, times.ends);
      }
      const auto& steps = schedules_[r].steps;
      const auto messages =
          static_cast<std::size_t>(std::count_if(steps.begin(), steps.end(), [](const Step& step) {
            return step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
          }));
      most_messages = std::max(most_messages, messages);
    }
    price.latency_s += kMessageSeconds * static_cast<double>(most_messages);
    price.s_per_byte = most_used() + std::max(0.0, price.s_per_byte - longest_);
    return price;
  }

 private:
  // By pair: seconds a byte over the slowest capacity that it goes through.
  void find_slowest() {
    const topology::Capacities& all = map_.capacities();
    slowest_.assign(all.kbit_per_s.begin(), all.kbit_per_s.end());
    for (const topology::SharedCapacity& shared : all.shared) {
      for (const int from : shared.from) {
        for (const int to : shared.to) {
          double& rate = slowest_[all.pair(from, to)];
          rate = std::min(rate, static_cast<double>(shared.kbit_per_s));
        }
      }
    }
  }

  // By chunk, its part of the payload.
  static std::vector<double> parts_of(const Schedule& s) {
    const bool by_block = has_blocks_by_rank(s.collective);
    const std::size_t run = by_block ? s.pieces : s.chunks;
    const double block = by_block ? 1.0 / s.size : 1.0;
    std::vector<double> parts;
    for (std::size_t first = 0; first < s.chunks; first += run) {
      double whole = static_cast<double>(run);
      if (!s.shares.empty()) {
        const auto begin = s.shares.begin() + static_cast<std::ptrdiff_t>(first);
        const auto end = begin + static_cast<std::ptrdiff_t>(run);
        whole = static_cast<double>(std::accumulate(begin, end, std::uint64_t{0}));
      }
      for (std::size_t i = 0; i < run; ++i) {
        const double share = s.shares.empty() ? 1 : s.shares[first + i];
        parts.push_back(block * share / whole);
      }
    }
    return parts;
  }

  double part(std::size_t rank, const Slot& slot) const {
    const Schedule& s = schedules_[rank];
    const auto chunk =
        slot.space == Space::kScratch ? s.scratch[slot.chunk].like.chunk : slot.chunk;
    return chunk < parts_[rank].size() ? parts_[rank][chunk] : 0;  // tokens are no chunk's
  }

  // Runs the rank's steps up to one that waits for a message; returns whether there was any.
  bool advance(std::size_t rank) {
    auto& times = times_[rank];
    const auto& steps = schedules_[rank].steps;
    const std::size_t before = times.size();
    while (times.size() < steps.size()) {
      const Step& step = steps[times.size()];
      if (step.kind == StepKind::kRecv) {
        const auto& sent = sent_[pair(step.peer.value, static_cast<int>(rank))];
        if (step.ordinal >= sent.size()) break;
      }
      times.push_back(time_of(rank, step));
    }
    return times.size() > before;
  }

  // What the step waits for, among the first steps of the rank.
  StepTimes after(std::size_t rank, const Step& step, std::size_t first) const {
    StepTimes t;
    for (const Dependency& dep : step.deps) {
      if (dep.step >= first) continue;
      const StepTimes& on = times_[rank][dep.step];
      const Step& earlier = schedules_[rank].steps[dep.step];
      // A reader follows what is written. What replaces what was read is priced as if it waited,
      // by which schedules were compared.
      const bool reads_it =
          writes(earlier) && reads(step) &&
          (step.lhs == earlier.dst || (step.kind == StepKind::kReduce && step.rhs == earlier.dst));
      t.ends_s = std::max(t.ends_s, on.ends_s);
      t.begins = std::max(t.begins, dep.streamed && reads_it ? on.begins : on.ends);
      t.ends = std::max(t.ends, on.ends);
    }
    return t;
  }

  StepTimes time_of(std::size_t rank, const Step& step) {
    const auto& done = times_[rank];
    StepTimes t = after(rank, step, done.size());
    const int into = fused_[rank][done.size()];
    if (into >= 0) {
      // It is posted when its reduction can begin.
      const auto& reduction = schedules_[rank].steps[static_cast<std::size_t>(into)];
      const StepTimes other = after(rank, reduction, done.size());
      t.ends_s = std::max(t.ends_s, other.ends_s);
      t.begins = std::max(t.begins, other.begins);
    }
    double takes = 0;
    const auto self = static_cast<int>(rank);
    if (step.kind == StepKind::kSend) {
      const std::size_t way = pair(self, step.peer.value);
      const double moved = part(rank, step.lhs);
      traffic_[way] += moved;
      takes = moved * kByteKbits / slowest_[way];
      longest_ = std::max(longest_, takes);
      t.ends_s += kMessageSeconds;
    } else if (step.kind == StepKind::kRecv) {
      const StepTimes& sent = sent_[pair(step.peer.value, self)][step.ordinal];
      const auto alpha = static_cast<double>(map_.alpha_ns(step.peer.value, self));
      t.ends_s = std::max(t.ends_s, sent.ends_s + alpha * kSecondsPerNs);
      t.begins = std::max(t.begins, sent.begins);
      t.ends = std::max(t.ends, sent.ends);
      takes = part(rank, step.dst) * kByteKbits / slowest_[pair(step.peer.value, self)];
    } else if (step.kind == StepKind::kReduce) {
      const auto gamma = static_cast<double>(map_.gamma_ns_per_gbyte());
      takes = part(rank, step.dst) * gamma * kSecondsPerNs / kBytesPerGbyte;
    }
    t.ends = std::max(t.ends, t.begins + takes);
    if (step.kind == StepKind::kSend) sent_[pair(self, step.peer.value)].push_back(t);
    return t;
  }

  // Seconds by byte of payload over the capacity that is used most.
  double most_used() const {
    const topology::Capacities& all = map_.capacities();
    double most = 0;
    const auto use = [&](double moved, std::int64_t kbit) {
      if (moved > 0) most = std::max(most, moved * kByteKbits / static_cast<double>(kbit));
    };
    for (std::size_t way = 0; way < traffic_.size(); ++way) {
      use(traffic_[way], all.kbit_per_s[way]);
    }
    for (const topology::SharedCapacity& shared : all.shared) {
      double moved = 0;
      for (const int from : shared.from) {
        for (const int to : shared.to) moved += traffic_[all.pair(from, to)];
      }
      use(moved, shared.kbit_per_s);
    }
    return most;
  }

  std::size_t pair(int from, int to) const { return map_.capacities().pair(from, to); }

  const topology::LinkMap& map_;
  const std::vector<Schedule>& schedules_;
  std::vector<std::vector<int>> fused_;        // by rank and step: find_fusions()
  double longest_ = 0;                         // message, by byte of payload
  std::vector<double> slowest_;                // by pair, kbit/s
  std::vector<double> traffic_;                // by pair, of the payload
  std::vector<std::vector<double>> parts_;     // by rank and chunk
  std::vector<std::vector<StepTimes>> times_;  // by rank, of the steps that have run
  std::vector<std::vector<StepTimes>> sent_;   // by pair and ordinal
};

// Some rows need a way between any two ranks.
bool has_ways(const topology::LinkMap& map, const std::vector<Schedule>& schedules) {
  for (const Schedule& s : schedules) {
    for (const Step& step : s.steps) {
      if (step.kind != StepKind::kSend) continue;
      const std::size_t way = map.capacities().pair(s.rank.value, step.peer.value);
      if (map.capacities().kbit_per_s[way] == 0) return false;
    }
  }
  return true;
}

}  // namespace

MapPrice price_on(const topology::LinkMap& map, const std::vector<Schedule>& schedules) {
  return MapRun(map, schedules).run();
}

bool goes_by_map(const Problem& problem) {
  if (problem.fabric.map() == nullptr) return false;
  if (problem.fabric.size() <= kMostPricedRanks) return true;
  return problem.bytes >= kLeastByMap && !has_blocks_by_rank(problem.collective) &&
         !(problem.in_rank_order && reduces(problem.collective)) &&
         find_algorithm(problem.collective, "forest") != nullptr;
}

bool may_choose_on_map(const AlgorithmRow& row, const Problem& problem) {
  // No rank can know whether all ranks' blocks are equal.
  if (row.collective != problem.collective || row.blocks == Blocks::kEqual) return false;
  if (problem.fabric.size() > kMostPricedRanks) return row.build == build_forest;
  const RankOrder unfit = problem.in_rank_order ? RankOrder::kNo : RankOrder::kOnly;
  if (row.order == unfit && reduces(row.collective)) return false;
  return row.level_cost == nullptr || problem.fabric.wide_level();
}

std::optional<MapCandidate> candidate_on_map(const AlgorithmRow& row, const Problem& problem) {
  const topology::LinkMap& map = *problem.fabric.map();
  MapCandidate candidate{&row, {}, nullptr};
  BuildSpec spec{problem.collective, {}, map.size(), problem.root, &problem.fabric};
  if (row.build == build_forest && map.size() > 1) {
    const auto task = forest_task(problem.collective, map.size(), problem.root);
    // A map has no islands, so that there is a forest.
    candidate.trees = std::make_shared<const std::vector<topology::PlannedTree>>(
        topology::make_forest(map.capacities(), task).value().trees);
    CHECK(topology::prove_trees(map.capacities(), task, *candidate.trees).is_ok());
    spec.trees = candidate.trees.get();
  }
  if (map.size() > kMostPricedRanks) return candidate;
  std::vector<Schedule> schedules;
  for (int r = 0; r < map.size(); ++r) {
    spec.rank = Rank{r};
    schedules.push_back(row.build(spec));
  }
  if (!has_ways(map, schedules)) return std::nullopt;
  candidate.price = price_on(map, schedules);
  return candidate;
}

std::vector<MapCandidate> candidates_on_map(const Problem& problem) {
  CHECK(goes_by_map(problem));
  std::vector<const AlgorithmRow*> rows;
  for (const AlgorithmRow& row : catalogue()) {
    if (may_choose_on_map(row, problem)) rows.push_back(&row);
  }
  CHECK(!rows.empty());
  std::vector<MapCandidate> found;
  const bool alone = rows.size() == 1 && rows[0]->build != build_forest;
  if (alone) return {{rows[0], {}, nullptr}};
  for (const AlgorithmRow* row : rows) {
    if (auto candidate = candidate_on_map(*row, problem)) found.push_back(*std::move(candidate));
  }
  // Where ways are missing there may be no row that needs none of them: any will do, over others.
  if (found.empty()) found.push_back({rows[0], {}, nullptr});
  return found;
}

const MapCandidate& cheapest(const std::vector<MapCandidate>& candidates, std::uint64_t bytes) {
  const MapCandidate* best = nullptr;
  double least = 0;
  for (const MapCandidate& candidate : candidates) {
    if (bytes > candidate.row->most_bytes) continue;
    const double seconds = candidate.price.seconds(bytes);
    if (best != nullptr && seconds >= least) continue;
    best = &candidate;
    least = seconds;
  }
  return best != nullptr ? *best : candidates.front();
}

}  // namespace holdfast::comm
