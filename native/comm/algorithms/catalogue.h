// The catalogue: one row per (algorithm, collective). The verifier sweep, the conformance suite,
// the planner, the benchmark, the docs and the Python listing all iterate it. Adding an algorithm:
// one file and its rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "comm/algorithms/algorithms.h"
#include "comm/schedule/builder.h"
#include "topology/cost_model.h"
#include "topology/fabric.h"

namespace holdfast::comm {

// What an algorithm needs of the blocks of all ranks.
enum class Blocks : std::uint8_t { kAny, kEqual };

// Who of a domain sends out of it at once: all its ranks, or one of them.
enum class Senders : std::uint8_t { kAll, kOne };

struct AlgorithmRow {
  std::string_view algorithm;  // "ring", "binomial_tree", ...; the file's name
  Collective collective{};
  Schedule (*build)(const BuildSpec&) = nullptr;
  // Terms of the critical path for n ranks and `bytes` of payload per rank (the caller's largest
  // block list); nullptr where levels matter.
  topology::CostTerms (*cost)(int size, std::uint64_t bytes) = nullptr;
  std::string_view source;  // paper, section
  Blocks blocks = Blocks::kAny;
  // For algorithms of two levels, which are for fabrics with a wide level.
  LevelCost (*level_cost)(const topology::Fabric& fabric, int level, std::uint64_t bytes) = nullptr;
  // Payload beyond which it is not chosen, for the memory that its partial sums take.
  std::uint64_t most_bytes = ~std::uint64_t{0};
  Senders senders = Senders::kAll;
  // Of calls with a codec.
  bool takes_residual = false;
  bool sums_up_in_hosts = false;  // first: for fabrics with a wide level
};

std::span<const AlgorithmRow> catalogue();

// Those of calls with a codec: for frames only.
std::span<const AlgorithmRow> encoded_catalogue();
// The row, or nullptr. `algorithm` empty: the first row of the collective.
const AlgorithmRow* find_encoded(Collective collective, std::string_view algorithm = {});
// The row of a call that names none, of a collective that has one. `levels`: whether the fabric has
// a wide level.
const AlgorithmRow& choose_encoded(Collective collective, bool levels, bool residual);

// The row, or nullptr. `algorithm` empty: the first row of the collective.
const AlgorithmRow* find_algorithm(Collective collective, std::string_view algorithm);

// What the cost model must know; the same on every rank.
struct Problem {
  Collective collective{};
  std::uint64_t bytes = 0;
  const topology::Fabric& fabric;  // must outlive the problem
};

// By the cost model; nothing where the row is not for this problem: another collective, two levels
// where none is wide, or too much memory.
std::optional<double> predict_seconds(const AlgorithmRow& row, const Problem& problem);

// The cheapest row by the cost model; every collective but send/recv has at least one row.
const AlgorithmRow& choose_algorithm(const Problem& problem);

}  // namespace holdfast::comm
