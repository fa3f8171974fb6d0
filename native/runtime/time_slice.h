// The time slice of a thread that waits for other ranks: how large the pieces are in which the
// system gives it its share of a core. The share itself stays what it was.
//
// A small op is a few microseconds of work between waits. Where ranks outnumber cores, or another
// process is busy beside them, a thread that waits gives its core up, and the scheduler decides
// when it gets one again. With the usual slice of about 3 ms that is late twice over: a thread that
// is woken does not take the core from a process in the middle of its slice, and a thread that
// yields forfeits the rest of its own slice (Linux 6.18), for which a busy neighbour then runs.
// With the shortest slice both cost next to nothing.
// Why: docs/decisions/0112-the-shortest-time-slices.md
#pragma once

#include "base/types.h"

namespace holdfast::runtime {

// The range that Linux accepts.
inline constexpr Duration kShortestTimeSlice = std::chrono::microseconds(100);
inline constexpr Duration kLongestTimeSlice = std::chrono::milliseconds(100);

// Asks for slices of this length for the calling thread; zero: leaves it alone. A thread of another
// scheduling class, or one that has shorter slices, stays as it is. Asks once per thread, so it may
// be called before every wait. Does nothing on systems that know no slices (Linux before 6.12).
void ask_for_time_slice(Duration slice);

}  // namespace holdfast::runtime
