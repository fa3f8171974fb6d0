// Link meter: what has gone over the links to one peer. Belongs to whoever reads it; links only
// add.
#pragma once

#include "base/metrics/instruments.h"

namespace holdfast::comm {

struct LinkMeter {
  metrics::Counter sent;      // bytes, frames' headers included
  metrics::Counter received;  // likewise
  metrics::Counter retransmits;
  metrics::Gauge round_trip_ns;  // 0: not known
};

}  // namespace holdfast::comm
