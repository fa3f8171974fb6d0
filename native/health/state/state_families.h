// Rows of the table of metrics about snapshots of a rank's state; families.h has the others.
#pragma once

#include "base/metrics/text.h"

namespace holdfast::health::family {

inline constexpr metrics::Family kStateAge{
    "holdfast_state_age_seconds",
    metrics::Type::kGauge,
    "seconds",
    "Time since the newest snapshot of the kind was taken.",
    "state",
    "`state` is `committed` (the keepers of all ranks have it) or `flushed` (all ranks' parts are "
    "in files). There is no sample before the first one, and none when the training has ended."};
inline constexpr metrics::Family kStateStep{"holdfast_state_step", metrics::Type::kGauge, "",
                                            "Step of that snapshot.", "state"};
inline constexpr metrics::Family kStateStall{"holdfast_state_stall_seconds",
                                             metrics::Type::kCounter,
                                             "seconds",
                                             "Time that training waited for its keeper.",
                                             "",
                                             "In `take`, and before the optimiser's steps."};
inline constexpr metrics::Family kStateBytes{
    "holdfast_state_bytes",
    metrics::Type::kCounter,
    "bytes",
    "Bytes of this rank's snapshots.",
    "what",
    "`what` is `captured` (parts that the keeper has taken in), `sent` (to other keepers, to make "
    "parity and to restore) or `flushed` (written to files)."};
inline constexpr metrics::Family kStateRestores{
    "holdfast_state_restores",
    metrics::Type::kCounter,
    "",
    "Restored states, by where this rank's part came from.",
    "source",
    "`source` is `replica` (a rank that lives), `keeper` (the rank's own), `decoded` (made again "
    "from others' parts and parity) or `storage`."};
inline constexpr metrics::Family kStateDamaged{
    "holdfast_state_damaged_tiles",
    metrics::Type::kCounter,
    "",
    "Tiles (1 MiB) in keepers' memory that had other bytes than were captured.",
    "",
    "They are made again from parity, or their snapshot is given up; they are never loaded."};
inline constexpr metrics::Family kStateProtected{
    "holdfast_state_protected",
    metrics::Type::kGauge,
    "",
    "1: a loss that the code stands costs no more than the newest step; 0: it costs more.",
    "",
    "There is no sample without snapshots."};
inline constexpr metrics::Family kStateUnprotected{
    "holdfast_state_unprotected_seconds",
    metrics::Type::kGauge,
    "seconds",
    "For how long the state has been unprotected.",
    "why",
    "`why` is the reason in words, cut after 160 characters. There is no sample while the state "
    "is protected."};

}  // namespace holdfast::health::family
