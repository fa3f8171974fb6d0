#include "comm/algorithms/catalogue.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "comm/algorithms/algorithms.h"

namespace holdfast::comm {
namespace {

constexpr std::string_view kRing = "Patarasuk, Yuan 2009, section 3";
constexpr std::string_view kChan = "Chan et al. 2007, section 4";
constexpr std::string_view kThakur = "Thakur, Rabenseifner, Gropp 2005, sections 4-6";
constexpr std::string_view kHensgen = "Hensgen, Finkel, Manber 1988, section 3";

constexpr std::string_view kBruck = "Bruck et al. 1997, sections 3-4";
constexpr std::string_view kKaronis = "Karonis et al. 2000, sections 3-4";
constexpr std::string_view kSanders = "Sanders, Speck, Traeff 2009, sections 2-3";

// Bytes of payload up to which partial sums may stay in scratch: halving keeps half the payload,
// and a flat fold what it gets from all peers but one.
constexpr std::uint64_t kMostInScratch = 64ULL << 20;

// A ring leaves a domain by one hop only, if the domain's ranks are numbered consecutively.
constexpr AlgorithmRow ring(Collective collective, Schedule (*build)(const BuildSpec&),
                            topology::CostTerms (*cost)(int, std::uint64_t)) {
  AlgorithmRow row{"ring", collective, build, cost, kRing};
  row.senders = Senders::kOne;
  return row;
}

constexpr std::array kRows{
    ring(Collective::kAllReduce, build_ring_all_reduce, cost_ring_all_reduce),
    ring(Collective::kReduceScatter, build_ring_reduce_scatter, cost_ring_reduce_scatter),
    ring(Collective::kAllGather, build_ring_all_gather, cost_ring_all_gather),
    AlgorithmRow{"binomial_tree", Collective::kBroadcast, build_binomial_broadcast,
                 cost_binomial_broadcast, kThakur},
    AlgorithmRow{"binomial_tree", Collective::kReduce, build_binomial_reduce, cost_binomial_reduce,
                 kThakur},
    AlgorithmRow{"flat", Collective::kAllReduce, build_flat, cost_flat_all_reduce, kChan,
                 Blocks::kAny, nullptr, kMostInScratch},
    AlgorithmRow{"flat", Collective::kReduceScatter, build_flat, cost_flat_reduce_scatter, kChan,
                 Blocks::kAny, nullptr, kMostInScratch},
    AlgorithmRow{"flat", Collective::kAllGather, build_flat, cost_flat_block_exchange, kChan},
    AlgorithmRow{"flat", Collective::kBroadcast, build_flat, cost_flat_broadcast, kChan},
    AlgorithmRow{"flat", Collective::kReduce, build_flat, cost_flat_reduce, kChan, Blocks::kAny,
                 nullptr, kMostInScratch},
    AlgorithmRow{"flat", Collective::kGather, build_flat, cost_flat_block_exchange, kChan},
    AlgorithmRow{"flat", Collective::kScatter, build_flat, cost_flat_block_exchange, kChan},
    AlgorithmRow{"halving_doubling", Collective::kAllReduce, build_halving_doubling_all_reduce,
                 cost_halving_doubling_all_reduce, kThakur, Blocks::kAny, nullptr, kMostInScratch},
    AlgorithmRow{"halving_doubling", Collective::kReduceScatter,
                 build_halving_doubling_reduce_scatter, cost_halving_doubling_reduce_scatter,
                 kThakur, Blocks::kAny, nullptr, kMostInScratch},
    AlgorithmRow{"halving_doubling", Collective::kAllGather, build_halving_doubling_all_gather,
                 cost_halving_doubling_all_gather, kThakur},
    AlgorithmRow{"recursive_doubling", Collective::kAllReduce, build_recursive_doubling_all_reduce,
                 cost_recursive_doubling_all_reduce, kThakur, Blocks::kAny, nullptr,
                 kMostInScratch},
    AlgorithmRow{"bruck", Collective::kAllGather, build_bruck_all_gather, cost_bruck_all_gather,
                 kBruck},
    AlgorithmRow{"double_tree", Collective::kAllReduce, build_double_tree,
                 cost_double_tree_all_reduce, kSanders},
    AlgorithmRow{"double_tree", Collective::kBroadcast, build_double_tree,
                 cost_double_tree_broadcast, kSanders},
    AlgorithmRow{"double_tree", Collective::kReduce, build_double_tree, cost_double_tree_reduce,
                 kSanders},
    AlgorithmRow{"scatter_allgather", Collective::kBroadcast, build_scatter_allgather_broadcast,
                 cost_scatter_allgather_broadcast, kThakur},
    AlgorithmRow{"two_level", Collective::kAllReduce, build_two_level, nullptr, kKaronis,
                 Blocks::kAny, cost_two_level_all_reduce},
    AlgorithmRow{"two_level", Collective::kReduceScatter, build_two_level, nullptr, kKaronis,
                 Blocks::kAny, cost_two_level_reduce_scatter},
    AlgorithmRow{"two_level", Collective::kAllGather, build_two_level, nullptr, kKaronis,
                 Blocks::kAny, cost_two_level_all_gather},
    AlgorithmRow{"two_level", Collective::kBroadcast, build_two_level, nullptr, kKaronis,
                 Blocks::kAny, cost_two_level_broadcast},
    AlgorithmRow{"two_level", Collective::kReduce, build_two_level, nullptr, kKaronis, Blocks::kAny,
                 cost_two_level_reduce},
    AlgorithmRow{"pairwise", Collective::kAllToAll, build_pairwise_all_to_all,
                 cost_pairwise_all_to_all, kThakur},
    AlgorithmRow{"bruck", Collective::kAllToAll, build_bruck_all_to_all, cost_bruck_all_to_all,
                 kBruck, Blocks::kEqual},
    AlgorithmRow{"dissemination", Collective::kBarrier, build_dissemination_barrier,
                 cost_dissemination_barrier, kHensgen},
};

constexpr std::string_view kTang = "Tang et al. 2021, section 5";

constexpr AlgorithmRow two_phase(Collective collective) {
  AlgorithmRow row{"two_phase", collective, build_two_phase, nullptr, kTang};
  row.takes_residual = true;
  return row;
}

constexpr AlgorithmRow two_level_coded(Collective collective) {
  AlgorithmRow row{"two_level_coded", collective, build_two_level_coded, nullptr, kKaronis};
  row.sums_up_in_domains = true;
  return row;
}

constexpr std::array kEncodedRows{
    two_phase(Collective::kAllReduce), two_phase(Collective::kReduceScatter),
    two_phase(Collective::kAllGather), two_phase(Collective::kBroadcast),
    two_phase(Collective::kAllToAll),  two_level_coded(Collective::kAllReduce),
};

const AlgorithmRow* find(std::span<const AlgorithmRow> rows, Collective collective,
                         std::string_view algorithm) {
  for (const AlgorithmRow& row : rows) {
    if (row.collective != collective) continue;
    if (algorithm.empty() || row.algorithm == algorithm) return &row;
  }
  return nullptr;
}

// Predicts seconds where each of `senders` ranks sends across the fabric; the slowest part of the
// way decides. Senders of one domain share its way out, and the domains of a level count as alike.
double seconds_across(topology::CostTerms cost, const topology::Fabric& fabric, int senders) {
  const int common = fabric.common_level();
  topology::LinkModel link = fabric.level(common).link;
  double slowest = link.beta_s_per_byte;
  double shared_by = 1;
  for (int level = common + 1; level <= fabric.depth(); ++level) {
    const auto out = fabric.level(level).out_s_per_byte;
    if (!out) continue;
    const double share = std::max(1.0, static_cast<double>(senders) / fabric.domains(level));
    if (share * *out <= slowest) continue;
    slowest = share * *out;
    shared_by = share;
    link.beta_s_per_byte = *out;
  }
  cost.wire_bytes *= shared_by;
  return topology::predict_seconds(cost, link);
}

}  // namespace

std::span<const AlgorithmRow> catalogue() { return kRows; }
std::span<const AlgorithmRow> encoded_catalogue() { return kEncodedRows; }

const AlgorithmRow* find_encoded(Collective collective, std::string_view algorithm) {
  return find(kEncodedRows, collective, algorithm);
}

const AlgorithmRow& choose_encoded(Collective collective, bool levels, bool residual) {
  const AlgorithmRow* best = nullptr;
  for (const AlgorithmRow& row : kEncodedRows) {
    if (row.collective != collective || (residual && !row.takes_residual)) continue;
    if (row.sums_up_in_domains && !levels) continue;
    if (best == nullptr || row.sums_up_in_domains) best = &row;
  }
  CHECK(best != nullptr);
  return *best;
}

const AlgorithmRow* find_algorithm(Collective collective, std::string_view algorithm) {
  return find(kRows, collective, algorithm);
}

std::optional<double> predict_seconds(const AlgorithmRow& row, const Problem& problem) {
  const topology::Fabric& fabric = problem.fabric;
  if (row.collective != problem.collective || problem.bytes > row.most_bytes) return std::nullopt;
  if (row.level_cost != nullptr) {
    const auto wide = fabric.wide_level();
    if (!wide) return std::nullopt;
    const LevelCost cost = row.level_cost(fabric, *wide, problem.bytes);
    return topology::predict_seconds(cost.inside, fabric.level(*wide).link) +
           seconds_across(cost.across, fabric, fabric.domains(*wide));
  }
  const int senders = row.senders == Senders::kAll ? fabric.size() : 1;
  return seconds_across(row.cost(fabric.size(), problem.bytes), fabric, senders);
}

const AlgorithmRow& choose_algorithm(const Problem& problem) {
  const AlgorithmRow* best = nullptr;
  double least = 0;
  for (const AlgorithmRow& row : kRows) {
    // No rank can know whether all ranks' blocks are equal, so a row that needs this must be named
    // by the caller.
    if (row.blocks == Blocks::kEqual) continue;
    const auto seconds = predict_seconds(row, problem);
    if (!seconds || (best != nullptr && *seconds >= least)) continue;
    best = &row;
    least = *seconds;
  }
  CHECK(best != nullptr);
  return *best;
}

}  // namespace holdfast::comm
