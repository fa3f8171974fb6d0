// Random ids of groups, rendezvous and members. The ids of one process's members begin alike, so
// that a process recognizes what it has left in a store before.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace holdfast::runtime {

// Any thread.
std::uint64_t random_number();
MemberId random_member();
// Ids drawn from now on are those of another process: one that was voted out, and comes back to a
// group, is no member that it was.
void begin_anew();
// Whether both ids are of nodes of one process.
bool is_same_process(MemberId one, MemberId other);

}  // namespace holdfast::runtime
