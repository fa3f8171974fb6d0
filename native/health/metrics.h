// Metrics: what a process counts, in instruments that are made once and bounded in number. They are
// indexed by collective, path and cause, and by peer up to kPeers; all ranks beyond are one
// "other". families.h gives the meaning and the unit of each.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/metrics/coverage.h"
#include "base/metrics/instruments.h"
#include "base/metrics/text.h"
#include "base/result.h"
#include "comm/message/mail_meter.h"
#include "comm/observer.h"
#include "comm/transport/catalogue.h"
#include "comm/transport/link_meter.h"
#include "compress/codec.h"
#include "health/caller_names.h"
#include "health/layer_metrics.h"
#include "health/map_metrics.h"

namespace holdfast::health {

class Metrics {
 public:
  // World ranks with counters of their own: enough for the links of one host, and few enough for a
  // scraper of ten thousand ranks.
  static constexpr std::size_t kPeers = 64;

  template <class T>
  using ByCollective = std::array<T, comm::kCollectiveCount>;
  template <class T>
  using ByPeer = std::array<T, kPeers + 1>;

  static std::size_t peer_index(Rank world_rank) {
    const auto rank = static_cast<std::size_t>(world_rank.value);
    return world_rank.value >= 0 && rank < kPeers ? rank : kPeers;
  }
  // Null when the transport is not in the catalogue.
  comm::LinkMeter* link(Rank world_rank, std::string_view transport) {
    const auto index = comm::transport_index(transport);
    return index ? &links[*index][peer_index(world_rank)] : nullptr;
  }

  ByCollective<std::array<metrics::Counter, comm::kOpPathCount>> ops;
  ByCollective<std::array<metrics::Counter, comm::kOpPathCount>> op_bytes;
  ByCollective<metrics::Histogram> op_duration;
  CallerNames callers;
  std::array<metrics::Counter, kCallerNames + 1> calls;  // by number; 0: names beyond those
  ByPeer<comm::MailMeter> mail;
  std::array<metrics::Counter, kCodeCount> ops_failed;
  metrics::Counter begun;
  metrics::Counter ended;
  metrics::Coverage active;   // time covered by ops
  metrics::Coverage exposed;  // time covered by waits for ops
  ByPeer<metrics::Counter> peer_wait_ns;
  std::array<ByPeer<comm::LinkMeter>, comm::kTransportCount> links;  // in the catalogue's order

  struct CodecMetrics {
    metrics::Counter raw;   // bytes
    metrics::Counter wire;  // bytes
    metrics::Level residual_norm;
  };
  std::array<CodecMetrics, compress::kCodecCount> codecs;  // by CodecId
  LayerMetrics layers;
  MapMetrics maps;

  metrics::Gauge epoch;
  metrics::Gauge members;
  metrics::Gauge rank;  // in the world whose view changed last
  std::array<metrics::Counter, comm::kLossCauseCount> losses;
  metrics::Counter repairs;
  metrics::Counter joins;
  metrics::Histogram recovery;

  // Any thread.
  std::string text(metrics::TextFormat format, Duration wall_offset, Instant now) const;

 private:
  void write_ops(metrics::TextEncoder& out) const;
  void write_overlap(metrics::TextEncoder& out) const;
  void write_codecs(metrics::TextEncoder& out) const;
  void write_calls(metrics::TextEncoder& out) const;
  void write_peers(metrics::TextEncoder& out) const;
  void write_links(metrics::TextEncoder& out) const;
  void write_trunks(metrics::TextEncoder& out) const;
  void write_relayed(metrics::TextEncoder& out) const;
  void write_views(metrics::TextEncoder& out) const;
};

// Writes the family holdfast_build_info.
void write_build(metrics::TextEncoder& out);
const char* version_text();

}  // namespace holdfast::health
