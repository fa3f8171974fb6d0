// Rank summary: what a rank's heartbeat tells the process that keeps the status model of its world:
// a few counters, and the peers that the rank waited for most and exchanged most bytes with. It
// comes from a socket, so parsing is total and bounded.
// Why: docs/decisions/0057-status-comes-by-heartbeat.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "comm/observer.h"
#include "health/far/far_link.h"
#include "health/metrics.h"
#include "health/state/state_metrics.h"

namespace holdfast::health {

// Half of the cells are chosen by wait, half by bytes. A host of 32 ranks is described whole, and
// ten thousand ranks at two heartbeats a second send 20 MB/s to the process that collects them.
inline constexpr std::size_t kMaxCells = 32;

struct RankSummary {
  // Counters of one peer since the process began.
  struct Cell {
    Rank peer;  // its rank in the world
    std::uint64_t wait_ns = 0;
    std::uint64_t sent = 0;  // bytes on links
    std::uint64_t received = 0;
    friend bool operator==(const Cell&, const Cell&) = default;
  };
  comm::Standing standing = comm::Standing::kAlone;
  std::uint64_t epoch = 0;
  std::uint64_t ops = 0;  // ops that ended well
  std::uint64_t bytes = 0;
  std::uint64_t failed = 0;
  std::uint64_t queue = 0;  // ops under way
  comm::MapFacts map;       // of the world's group
  StateSummary state;
  std::vector<Cell> cells;  // by peer, at most kMaxCells
  std::vector<FarLink> far_links;
  friend bool operator==(const RankSummary&, const RankSummary&) = default;
};

// Any thread.
RankSummary summarize(const Metrics& metrics, comm::Standing standing, Instant now);

std::vector<std::byte> encode_summary(const RankSummary& summary);
// kProtocolError for anything encode_summary() does not make.
Result<RankSummary> parse_summary(std::span<const std::byte> bytes);

// The latest counters of a rank, and how fast they grow.
class RankNumbers {
 public:
  struct LinkSummary {
    RankSummary::Cell total;
    double wait_share = 0;  // fraction of the time, 0 to 1
    double bytes_rate = 0;  // per second, both directions
  };
  void update(const RankSummary& next, Instant now);

  const RankSummary& total() const { return total_; }
  Instant at() const { return at_; }                                // when that came
  const std::vector<LinkSummary>& links() const { return links_; }  // by peer
  double ops_rate() const { return ops_rate_; }                     // per second
  double bytes_rate() const { return bytes_rate_; }

 private:
  void take_rates(const RankSummary& next, double seconds);

  RankSummary total_;
  std::vector<LinkSummary> links_;
  double watched_ = 0;  // seconds
  Instant at_{};
  bool begun_ = false;
  double ops_rate_ = 0;
  double bytes_rate_ = 0;
};

}  // namespace holdfast::health
