// Catalogue: one row per (algorithm, collective). The verifier sweep, the conformance suite, the
// planner, the benchmark, the docs and the Python listing all iterate it. The rows stand in
// algorithms.h; a new algorithm needs one file, and its declarations and rows there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "comm/schedule/builder.h"
#include "topology/cost_model.h"
#include "topology/fabric.h"

namespace holdfast::comm {

// What an algorithm requires of the blocks of all ranks.
enum class Blocks : std::uint8_t { kAny, kEqual };

// Which ranks of a domain send out of it at once: all of them, or those whose successor in a ring
// by rank is outside.
enum class Senders : std::uint8_t { kAll, kRing };

// Whether a reduction is ((0 op 1) op 2) op ..., for every element.
enum class RankOrder : std::uint8_t {
  kNo,
  kYes,
  kOnly,  // and the row is chosen, unless by name, only for calls that ask for it
};

// Cost of two phases that follow each other: terms of each rank inside its domain, and of each
// domain across domains. The domains are those of a wide level.
struct LevelCost {
  topology::CostTerms inside;
  topology::CostTerms across;
};

struct AlgorithmRow {
  std::string_view algorithm;  // "ring", "binomial_tree", ...: the name of its file
  Collective collective{};
  Schedule (*build)(const BuildSpec&) = nullptr;
  // Terms of the critical path for `size` ranks and `bytes` of payload per rank (the caller's
  // largest block list); nullptr where level_cost is used.
  topology::CostTerms (*cost)(int size, std::uint64_t bytes) = nullptr;
  std::string_view source;  // paper, section
  Blocks blocks = Blocks::kAny;
  // The cost of an algorithm of two levels, which needs a fabric with a wide level.
  LevelCost (*level_cost)(const topology::Fabric& fabric, int level, std::uint64_t bytes) = nullptr;
  // Payload in bytes above which the row is not chosen: its partial sums take memory, or it is for
  // what is small.
  std::uint64_t most_bytes = ~std::uint64_t{0};
  Senders senders = Senders::kAll;
  // For calls with a codec: whether error feedback is supported.
  bool takes_residual = false;
  RankOrder order = RankOrder::kNo;
  // Chosen, unless by name, where there is a map, and nowhere else.
  bool goes_by_map = false;
  bool sums_up_in_domains = false;  // sums inside domains come first: for fabrics with a wide level

  bool keeps_order() const { return order != RankOrder::kNo; }
};

std::span<const AlgorithmRow> catalogue();

// The rows for calls with a codec, which send frames only.
std::span<const AlgorithmRow> encoded_catalogue();
// The row, or nullptr. `algorithm` empty: the first row of the collective.
const AlgorithmRow* find_encoded(Collective collective, std::string_view algorithm = {});
// The row for a call that names no algorithm; the collective must have a row. `levels`: whether the
// fabric has a wide level. `residual`: whether the call has error feedback.
const AlgorithmRow& choose_encoded(Collective collective, bool levels, bool residual);

// The row, or nullptr. `algorithm` empty: the first row of the collective.
const AlgorithmRow* find_algorithm(Collective collective, std::string_view algorithm);

// The input of the cost model; it is the same on every rank.
struct Problem {
  Collective collective{};
  std::uint64_t bytes = 0;
  const topology::Fabric& fabric;  // must outlive the problem
  bool in_rank_order = false;      // only rows that fold in the order of ranks
  Rank root = {};                  // where there is a map
};

// Predicts seconds by the cost model, or by what the row costs on the fabric's map (map_price.h has
// that for all sizes at once, which takes milliseconds). Nothing if the row does not fit the
// problem: it is for another collective or needs a wide level that the fabric lacks, its sums take
// too much memory, or a way that it needs is missing.
std::optional<double> predict_seconds(const AlgorithmRow& row, const Problem& problem);

// The cheapest row by the cost model; every collective but send/recv has at least one row.
const AlgorithmRow& choose_algorithm(const Problem& problem);

}  // namespace holdfast::comm
