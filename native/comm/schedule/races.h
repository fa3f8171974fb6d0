// Races: finds two steps of one rank that touch the same slot, of which at least one writes, with
// no dependency between them.
#pragma once

#include "base/result.h"
#include "comm/schedule/schedule.h"

namespace holdfast::comm {

// Input chunk c and output chunk c count as one slot where the caller may pass one buffer for both.
Status check_races(const Schedule& schedule);

}  // namespace holdfast::comm
