#include "comm/algorithms/catalogue.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"
#include "comm/plan/map_price.h"

namespace holdfast::comm {
namespace {

const AlgorithmRow* find(std::span<const AlgorithmRow> rows, Collective collective,
                         std::string_view algorithm) {
  for (const AlgorithmRow& row : rows) {
    if (row.collective != collective) continue;
    if (algorithm.empty() || row.algorithm == algorithm) return &row;
  }
  return nullptr;
}

// How many of the row's senders share the way out of that domain of a level which has most of them.
double sharing(const AlgorithmRow& row, const topology::Fabric& fabric, int level) {
  if (row.level_cost != nullptr) {
    // One of each wide domain; a domain further in sends for all that it is in.
    const int wide = *fabric.wide_level();
    if (level >= wide) return 1;
    std::vector<int> inside(static_cast<std::size_t>(fabric.domains(level)), 0);
    for (int d = 0; d < fabric.domains(wide); ++d) {
      ++inside[static_cast<std::size_t>(fabric.domain_of(fabric.members(wide, d)[0], level))];
    }
    return std::ranges::max(inside);
  }
  if (row.senders == Senders::kAll) return fabric.largest(level);
  std::vector<Rank> ring;
  ring.reserve(static_cast<std::size_t>(fabric.size()));
  for (int r = 0; r < fabric.size(); ++r) ring.push_back({r});
  return std::max(1, std::ranges::max(fabric.crossings(ring, level)));
}

// Predicts seconds across the fabric; the slowest part of the way decides, and senders of one
// domain share its way out.
double seconds_across(const AlgorithmRow& row, topology::CostTerms cost,
                      const topology::Fabric& fabric) {
  const int common = fabric.common_level();
  topology::LinkModel link = fabric.level(common).link;
  double slowest = link.beta_s_per_byte;
  double shared_by = 1;
  for (int level = common + 1; level <= fabric.depth(); ++level) {
    const auto out = fabric.level(level).out_s_per_byte;
    if (!out) continue;
    const double share = sharing(row, fabric, level);
    if (share * *out <= slowest) continue;
    slowest = share * *out;
    shared_by = share;
    link.beta_s_per_byte = *out;
  }
  cost.wire_bytes *= shared_by;
  return topology::predict_seconds(cost, link);
}

}  // namespace

std::span<const AlgorithmRow> catalogue() { return rows::kAlgorithms; }
std::span<const AlgorithmRow> encoded_catalogue() { return rows::kEncodedAlgorithms; }

const AlgorithmRow* find_encoded(Collective collective, std::string_view algorithm) {
  return find(rows::kEncodedAlgorithms, collective, algorithm);
}

const AlgorithmRow& choose_encoded(Collective collective, bool levels, bool residual) {
  const AlgorithmRow* best = nullptr;
  for (const AlgorithmRow& row : rows::kEncodedAlgorithms) {
    if (row.collective != collective || (residual && !row.takes_residual)) continue;
    if (row.sums_up_in_domains && !levels) continue;
    if (best == nullptr || row.sums_up_in_domains) best = &row;
  }
  CHECK(best != nullptr);
  return *best;
}

const AlgorithmRow* find_algorithm(Collective collective, std::string_view algorithm) {
  return find(rows::kAlgorithms, collective, algorithm);
}

std::optional<double> predict_seconds(const AlgorithmRow& row, const Problem& problem) {
  const topology::Fabric& fabric = problem.fabric;
  if (row.collective != problem.collective || problem.bytes > row.most_bytes) return std::nullopt;
  const bool priced = fabric.map() != nullptr && fabric.size() <= kMostPricedRanks;
  if (row.goes_by_map && !priced) return std::nullopt;
  const RankOrder unfit = problem.in_rank_order ? RankOrder::kNo : RankOrder::kOnly;
  if (row.order == unfit && reduces(row.collective)) return std::nullopt;
  const auto wide = fabric.wide_level();
  if (row.level_cost != nullptr && !wide) return std::nullopt;
  if (priced) {
    const auto candidate = candidate_on_map(row, problem);
    return candidate ? std::optional(candidate->price.seconds(problem.bytes)) : std::nullopt;
  }
  if (row.level_cost != nullptr) {
    const LevelCost cost = row.level_cost(fabric, *wide, problem.bytes);
    return topology::predict_seconds(cost.inside, fabric.level(*wide).link) +
           seconds_across(row, cost.across, fabric);
  }
  return seconds_across(row, row.cost(fabric.size(), problem.bytes), fabric);
}

const AlgorithmRow& choose_algorithm(const Problem& problem) {
  if (goes_by_map(problem)) {
    // Of many ranks, without a search: there is one row for them.
    if (problem.fabric.size() > kMostPricedRanks) {
      return *find_algorithm(problem.collective, "forest");
    }
    return *cheapest(candidates_on_map(problem), problem.bytes).row;
  }
  const AlgorithmRow* best = nullptr;
  double least = 0;
  for (const AlgorithmRow& row : rows::kAlgorithms) {
    // No rank can know whether all ranks' blocks are equal, so a row that needs this must be named
    // by the caller.
    if (row.blocks == Blocks::kEqual || row.goes_by_map) continue;
    const auto seconds = predict_seconds(row, problem);
    if (!seconds || (best != nullptr && *seconds >= least)) continue;
    best = &row;
    least = *seconds;
  }
  CHECK(best != nullptr);
  return *best;
}

}  // namespace holdfast::comm
