// Ids that are drawn by chance: of groups and meetings, and of members. Those of the members of one
// process begin alike, so that a process knows what it has left in a store before.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace holdfast::runtime {

// Any thread.
std::uint64_t random_number();
MemberId random_member();
// Whether both are nodes of one process.
bool is_same_process(MemberId one, MemberId other);

}  // namespace holdfast::runtime
