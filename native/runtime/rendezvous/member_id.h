// Random ids of groups, rendezvous and members. The ids of one process's members begin alike, so
// that a process recognizes what it has left in a store before.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace holdfast::runtime {

// Any thread.
std::uint64_t random_number();
MemberId random_member();
// Whether both ids are of nodes of one process.
bool is_same_process(MemberId one, MemberId other);

}  // namespace holdfast::runtime
