// Algorithms: what each one's file defines, and below it the rows of the catalogue. Whoever chooses
// among them includes catalogue.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "comm/algorithms/catalogue.h"
#include "topology/forest/forest.h"

namespace holdfast::comm {

Schedule build_ring_all_reduce(const BuildSpec& spec);
Schedule build_ring_reduce_scatter(const BuildSpec& spec);
Schedule build_ring_all_gather(const BuildSpec& spec);
topology::CostTerms cost_ring_all_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_ring_reduce_scatter(int size, std::uint64_t bytes);
topology::CostTerms cost_ring_all_gather(int size, std::uint64_t bytes);

Schedule build_binomial_broadcast(const BuildSpec& spec);
Schedule build_binomial_reduce(const BuildSpec& spec);
topology::CostTerms cost_binomial_broadcast(int size, std::uint64_t bytes);
topology::CostTerms cost_binomial_reduce(int size, std::uint64_t bytes);

Schedule build_flat(const BuildSpec& spec);
topology::CostTerms cost_flat_all_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_flat_block_exchange(int size, std::uint64_t bytes);
topology::CostTerms cost_flat_reduce_scatter(int size, std::uint64_t bytes);
topology::CostTerms cost_flat_broadcast(int size, std::uint64_t bytes);
topology::CostTerms cost_flat_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_flat_scan(int size, std::uint64_t bytes);

Schedule build_direct_fold(const BuildSpec& spec);
topology::CostTerms cost_direct_fold_all_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_direct_fold_reduce_scatter(int size, std::uint64_t bytes);

Schedule build_ordered_levels(const BuildSpec& spec);
LevelCost cost_ordered_levels_all_reduce(const topology::Fabric& fabric, int level,
                                         std::uint64_t bytes);

Schedule build_chain(const BuildSpec& spec);
topology::CostTerms cost_chain_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_chain_scan(int size, std::uint64_t bytes);

Schedule build_halving_doubling_all_reduce(const BuildSpec& spec);
Schedule build_halving_doubling_reduce_scatter(const BuildSpec& spec);
Schedule build_halving_doubling_all_gather(const BuildSpec& spec);
topology::CostTerms cost_halving_doubling_all_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_halving_doubling_reduce_scatter(int size, std::uint64_t bytes);
topology::CostTerms cost_halving_doubling_all_gather(int size, std::uint64_t bytes);

Schedule build_recursive_doubling_all_reduce(const BuildSpec& spec);
topology::CostTerms cost_recursive_doubling_all_reduce(int size, std::uint64_t bytes);

Schedule build_bruck_all_gather(const BuildSpec& spec);
Schedule build_bruck_all_to_all(const BuildSpec& spec);
topology::CostTerms cost_bruck_all_gather(int size, std::uint64_t bytes);
topology::CostTerms cost_bruck_all_to_all(int size, std::uint64_t bytes);

Schedule build_double_tree(const BuildSpec& spec);
topology::CostTerms cost_double_tree_all_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_double_tree_broadcast(int size, std::uint64_t bytes);
topology::CostTerms cost_double_tree_reduce(int size, std::uint64_t bytes);

Schedule build_scatter_allgather_broadcast(const BuildSpec& spec);
topology::CostTerms cost_scatter_allgather_broadcast(int size, std::uint64_t bytes);

// Builders for calls with a codec.
Schedule build_two_phase(const BuildSpec& spec);
Schedule build_two_level_coded(const BuildSpec& spec);
// Into how many pieces a rank's chunk of `elements` elements is cut.
int two_phase_pieces(std::uint64_t elements);

Schedule build_pairwise_all_to_all(const BuildSpec& spec);
topology::CostTerms cost_pairwise_all_to_all(int size, std::uint64_t bytes);

Schedule build_two_level(const BuildSpec& spec);
LevelCost cost_two_level_all_reduce(const topology::Fabric& fabric, int level, std::uint64_t bytes);
LevelCost cost_two_level_reduce_scatter(const topology::Fabric& fabric, int level,
                                        std::uint64_t bytes);
LevelCost cost_two_level_all_gather(const topology::Fabric& fabric, int level, std::uint64_t bytes);
LevelCost cost_two_level_broadcast(const topology::Fabric& fabric, int level, std::uint64_t bytes);
LevelCost cost_two_level_reduce(const topology::Fabric& fabric, int level, std::uint64_t bytes);

// Along a map's forest. build_trees(): along these; chunk i is of trees[i % their number], or,
// where every rank has a block, of one of the trees whose root has the block.
topology::ForestTask forest_task(Collective collective, int size, Rank root);
Schedule build_forest(const BuildSpec& spec);
Schedule build_trees(const BuildSpec& spec, std::span<const topology::PlannedTree> trees);
topology::CostTerms cost_forest_all_reduce(int size, std::uint64_t bytes);
topology::CostTerms cost_forest_reduce_scatter(int size, std::uint64_t bytes);
topology::CostTerms cost_forest_all_gather(int size, std::uint64_t bytes);
topology::CostTerms cost_forest_broadcast(int size, std::uint64_t bytes);
topology::CostTerms cost_forest_reduce(int size, std::uint64_t bytes);

Schedule build_domain_exchange(const BuildSpec& spec);
Schedule build_domain_lanes(const BuildSpec& spec);
// Of all_reduce, broadcast and reduce: twice as many lanes as the largest of the outermost domains
// has ranks, and no more than this.
Schedule build_in_lanes(const BuildSpec& spec, int most_lanes);
topology::CostTerms cost_domain_exchange(int size, std::uint64_t bytes);
topology::CostTerms cost_domain_exchange_blocks(int size, std::uint64_t bytes);
topology::CostTerms cost_domain_exchange_gather(int size, std::uint64_t bytes);
topology::CostTerms cost_domain_exchange_moves(int size, std::uint64_t bytes);

Schedule build_dissemination_barrier(const BuildSpec& spec);
topology::CostTerms cost_dissemination_barrier(int size, std::uint64_t bytes);

namespace rows {

inline constexpr std::string_view kRing = "Patarasuk, Yuan 2009, section 3";
inline constexpr std::string_view kChan = "Chan et al. 2007, section 4";
inline constexpr std::string_view kThakur = "Thakur, Rabenseifner, Gropp 2005, sections 4-6";
inline constexpr std::string_view kHensgen = "Hensgen, Finkel, Manber 1988, section 3";

inline constexpr std::string_view kBruck = "Bruck et al. 1997, sections 3-4";
inline constexpr std::string_view kZhao = "Zhao et al. 2024, section 5";
inline constexpr std::string_view kKaronis = "Karonis et al. 2000, sections 3-4";
inline constexpr std::string_view kPrefix = "Sanders, Traeff 2006, section 2";
inline constexpr std::string_view kSanders = "Sanders, Speck, Traeff 2009, sections 2-3";

// Bytes of payload up to which partial sums may stay in scratch: halving keeps half the payload,
// and a flat fold what it gets from all peers but one.
inline constexpr std::uint64_t kMostInScratch = 64ULL << 20;

constexpr AlgorithmRow ring(Collective collective, Schedule (*build)(const BuildSpec&),
                            topology::CostTerms (*cost)(int, std::uint64_t)) {
  AlgorithmRow row{"ring", collective, build, cost, kRing};
  row.senders = Senders::kRing;
  return row;
}

// Above it time is a matter of rates, which trees use better.
inline constexpr std::uint64_t kMostInLanes = 4ULL << 20;

// A flat reduction folds what all ranks send in the order of ranks.
constexpr AlgorithmRow flat_fold(Collective collective,
                                 topology::CostTerms (*cost)(int, std::uint64_t)) {
  AlgorithmRow row{"flat", collective, build_flat, cost, kChan};
  row.most_bytes = kMostInScratch;
  row.order = RankOrder::kYes;
  return row;
}

constexpr AlgorithmRow by_map(AlgorithmRow row) {
  row.goes_by_map = true;
  return row;
}

constexpr AlgorithmRow forest(Collective collective,
                              topology::CostTerms (*cost)(int, std::uint64_t)) {
  return by_map({"forest", collective, build_forest, cost, kZhao});
}

// What a quiet TCP connection sends at once is ten segments (RFC 6928): with more, one head would
// wait for its window, and lanes are there.
inline constexpr std::uint64_t kMostForOneHead = 14'480;

constexpr AlgorithmRow domain_exchange(Collective collective,
                                       topology::CostTerms (*cost)(int, std::uint64_t)) {
  AlgorithmRow row = by_map({"domain_exchange", collective, build_domain_exchange, cost, kKaronis});
  if (!has_blocks_by_rank(collective)) row.most_bytes = kMostForOneHead;
  return row;
}

constexpr AlgorithmRow domain_lanes(Collective collective,
                                    topology::CostTerms (*cost)(int, std::uint64_t)) {
  AlgorithmRow row = by_map({"domain_lanes", collective, build_domain_lanes, cost, kKaronis});
  row.most_bytes = kMostInLanes;
  return row;
}

constexpr AlgorithmRow in_order(AlgorithmRow row, RankOrder order) {
  row.order = order;
  return row;
}

inline constexpr std::array kAlgorithms{
    ring(Collective::kAllReduce, build_ring_all_reduce, cost_ring_all_reduce),
    ring(Collective::kReduceScatter, build_ring_reduce_scatter, cost_ring_reduce_scatter),
    ring(Collective::kAllGather, build_ring_all_gather, cost_ring_all_gather),
    AlgorithmRow{"binomial_tree", Collective::kBroadcast, build_binomial_broadcast,
                 cost_binomial_broadcast, kThakur},
    AlgorithmRow{"binomial_tree", Collective::kReduce, build_binomial_reduce, cost_binomial_reduce,
                 kThakur},
    flat_fold(Collective::kAllReduce, cost_flat_all_reduce),
    flat_fold(Collective::kReduceScatter, cost_flat_reduce_scatter),
    AlgorithmRow{"flat", Collective::kAllGather, build_flat, cost_flat_block_exchange, kChan},
    AlgorithmRow{"flat", Collective::kBroadcast, build_flat, cost_flat_broadcast, kChan},
    flat_fold(Collective::kReduce, cost_flat_reduce),
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
    forest(Collective::kAllReduce, cost_forest_all_reduce),
    forest(Collective::kReduceScatter, cost_forest_reduce_scatter),
    forest(Collective::kAllGather, cost_forest_all_gather),
    forest(Collective::kBroadcast, cost_forest_broadcast),
    forest(Collective::kReduce, cost_forest_reduce),
    domain_exchange(Collective::kAllReduce, cost_domain_exchange),
    domain_exchange(Collective::kReduceScatter, cost_domain_exchange_blocks),
    domain_exchange(Collective::kAllGather, cost_domain_exchange_gather),
    domain_exchange(Collective::kBroadcast, cost_domain_exchange_moves),
    domain_exchange(Collective::kReduce, cost_domain_exchange),
    domain_lanes(Collective::kAllReduce, cost_domain_exchange),
    domain_lanes(Collective::kBroadcast, cost_domain_exchange_moves),
    domain_lanes(Collective::kReduce, cost_domain_exchange),
    AlgorithmRow{"pairwise", Collective::kAllToAll, build_pairwise_all_to_all,
                 cost_pairwise_all_to_all, kThakur},
    AlgorithmRow{"bruck", Collective::kAllToAll, build_bruck_all_to_all, cost_bruck_all_to_all,
                 kBruck, Blocks::kEqual},
    AlgorithmRow{"dissemination", Collective::kBarrier, build_dissemination_barrier,
                 cost_dissemination_barrier, kHensgen},
    in_order({"direct_fold", Collective::kAllReduce, build_direct_fold, cost_direct_fold_all_reduce,
              kChan},
             RankOrder::kOnly),
    in_order({"direct_fold", Collective::kReduceScatter, build_direct_fold,
              cost_direct_fold_reduce_scatter, kChan},
             RankOrder::kOnly),
    in_order({"ordered_levels", Collective::kAllReduce, build_ordered_levels, nullptr, kKaronis,
              Blocks::kAny, cost_ordered_levels_all_reduce},
             RankOrder::kOnly),
    in_order({"chain", Collective::kReduce, build_chain, cost_chain_reduce, kChan},
             RankOrder::kOnly),
    in_order({"chain", Collective::kScan, build_chain, cost_chain_scan, kPrefix}, RankOrder::kYes),
    in_order({"chain", Collective::kExscan, build_chain, cost_chain_scan, kPrefix},
             RankOrder::kYes),
    flat_fold(Collective::kScan, cost_flat_scan),
    flat_fold(Collective::kExscan, cost_flat_scan),
};

inline constexpr std::string_view kTang = "Tang et al. 2021, section 5";

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

inline constexpr std::array kEncodedAlgorithms{
    two_phase(Collective::kAllReduce), two_phase(Collective::kReduceScatter),
    two_phase(Collective::kAllGather), two_phase(Collective::kBroadcast),
    two_phase(Collective::kAllToAll),  two_level_coded(Collective::kAllReduce),
};

}  // namespace rows
}  // namespace holdfast::comm
