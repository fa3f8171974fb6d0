// Prices on a map: how long any schedule takes on links that differ, by running all ranks' steps
// against the map. A schedule's time is a latency and a time for each byte of payload, so that one
// pricing serves all sizes.
// Why: docs/decisions/0145-a-map-prices-every-schedule.md
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/algorithms/catalogue.h"
#include "comm/schedule/schedule.h"
#include "topology/forest/forest.h"
#include "topology/link_map.h"

namespace holdfast::comm {

// The most ranks whose schedules are priced: beyond it, building all of them takes too long.
inline constexpr int kMostPricedRanks = 64;
// Above so many ranks, what has a forest goes by it from here on: what trees save is bandwidth.
inline constexpr std::uint64_t kLeastByMap = 512 * 1024;

struct MapPrice {
  double latency_s = 0;
  double s_per_byte = 0;  // of payload
  double seconds(std::uint64_t bytes) const {
    return latency_s + static_cast<double>(bytes) * s_per_byte;
  }
};

// Latency: the longest chain of messages, and what the rank with most of them spends on messages.
// By byte: what the capacity takes that is used most, and besides how long the longest chain of
// chunks keeps it waiting: all of the chain but its longest message. A step that streams goes on
// while its operand still arrives. Blocks of ranks count as equal.
// Source: Leighton, Maggs, Rao, "Packet routing and job-shop scheduling in O(congestion + dilation)
// steps", Combinatorica 14, 1994.
MapPrice price_on(const topology::LinkMap& map, const std::vector<Schedule>& schedules);

// A row on a map, and its trees, if it goes by trees.
struct MapCandidate {
  const AlgorithmRow* row = nullptr;
  MapPrice price;
  // Owners: the list of candidates that a view keeps, and its copies.
  std::shared_ptr<const std::vector<topology::PlannedTree>> trees;
};

// The row on the problem's map, by what it costs there; nothing where it needs a way that is
// missing.
std::optional<MapCandidate> candidate_on_map(const AlgorithmRow& row, const Problem& problem);

// Whether a call without a name is one of those that choose by what rows cost on the fabric's map.
bool goes_by_map(const Problem& problem);
// Whether such a call may choose the row, if its ways are there.
bool may_choose_on_map(const AlgorithmRow& row, const Problem& problem);

// All rows that such a call may choose among, whatever its size. Where there is one only, it has no
// price.
std::vector<MapCandidate> candidates_on_map(const Problem& problem);

// The cheapest of them for a payload.
const MapCandidate& cheapest(const std::vector<MapCandidate>& candidates, std::uint64_t bytes);

}  // namespace holdfast::comm
