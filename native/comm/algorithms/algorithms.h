// Algorithms: the builders and costs of the catalogue's rows. Each algorithm has its own file.
#pragma once

#include <cstdint>

#include "comm/schedule/builder.h"
#include "topology/cost_model.h"
#include "topology/fabric.h"

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

// Cost of two phases that follow each other: terms of each rank inside its domain, and of each
// domain across domains. The domains are those of a wide level.
struct LevelCost {
  topology::CostTerms inside;
  topology::CostTerms across;
};
Schedule build_two_level(const BuildSpec& spec);
LevelCost cost_two_level_all_reduce(const topology::Fabric& fabric, int level, std::uint64_t bytes);
LevelCost cost_two_level_reduce_scatter(const topology::Fabric& fabric, int level,
                                        std::uint64_t bytes);
LevelCost cost_two_level_all_gather(const topology::Fabric& fabric, int level, std::uint64_t bytes);
LevelCost cost_two_level_broadcast(const topology::Fabric& fabric, int level, std::uint64_t bytes);
LevelCost cost_two_level_reduce(const topology::Fabric& fabric, int level, std::uint64_t bytes);

Schedule build_dissemination_barrier(const BuildSpec& spec);
topology::CostTerms cost_dissemination_barrier(int size, std::uint64_t bytes);

}  // namespace holdfast::comm
