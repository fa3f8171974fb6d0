// Link meter: counts what has gone over the links to one peer. Its reader owns it; links only add.
#pragma once

#include "base/metrics/instruments.h"
#include "comm/transport/trunk/trunk_meter.h"

namespace holdfast::comm {

struct LinkMeter {
  metrics::Counter sent;      // bytes, headers included
  metrics::Counter received;  // bytes, headers included
  metrics::Counter retransmits;
  metrics::Gauge round_trip_ns;        // 0: not known
  metrics::Gauge least_round_trip_ns;  // likewise
  metrics::Gauge bytes_per_s;          // likewise
  metrics::Gauge relayed;              // 1: it goes through a relay
  metrics::Counter went_direct;        // how often it left a relay for a direct way
  TrunkMeter trunk;
};

}  // namespace holdfast::comm
