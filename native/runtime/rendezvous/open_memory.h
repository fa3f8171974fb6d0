// Memory that the members of a group on one host open to each other while the group is made, and
// which of it all of them can use. Driving thread only.
#pragma once

#include <string>
#include <vector>

#include "group/group.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

// What this process can use with all members: "reach" (it reads their memory where it lies), "flat"
// (flat areas), "queues" or kNoMemory. `flat`: the areas of all members, with the own one at
// `self`, or empty.
inline constexpr const char* kNoMemory = "none";
std::string usable_memory(Runtime& runtime, const std::vector<MemberId>& members,
                          const std::vector<comm::HostPeer>& flat, Rank self);
// Sets the memory of `config` by what all members have said; `flat` has an entry for each rank, or
// none.
void agree_on_memory(const std::vector<std::string>& said, std::vector<comm::HostPeer> flat,
                     group::GroupConfig& config);

}  // namespace holdfast::runtime
