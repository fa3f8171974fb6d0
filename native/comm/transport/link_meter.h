// Link meter: counts what has gone over the links to one peer. Its reader owns it; links only add.
#pragma once

#include "base/metrics/instruments.h"

namespace holdfast::comm {

struct LinkMeter {
  metrics::Counter sent;      // bytes, headers included
  metrics::Counter received;  // bytes, headers included
  metrics::Counter retransmits;
  metrics::Gauge round_trip_ns;        // 0: not known
  metrics::Gauge least_round_trip_ns;  // likewise
  metrics::Gauge bytes_per_s;          // likewise
  // Of a trunk; 0 where the link is one connection.
  metrics::Gauge is_trunk;
  metrics::Gauge lanes;
  metrics::Counter sent_again;  // bytes
  metrics::Counter lanes_lost;  // connections that broke, or were given up
  metrics::Counter resumed;     // how often the link went on after all had
};

}  // namespace holdfast::comm
