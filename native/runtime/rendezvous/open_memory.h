// Memory that the members of a group on one host lay open to each other while the group is made,
// and what of it all of them can use. Driving thread only.
#pragma once

#include <string>
#include <vector>

#include "group/group.h"
#include "runtime/runtime.h"

namespace holdfast::runtime {

// What this process can use with all members: "reach" (their memory where it lies), "flat" (areas),
// "queues" or kNoMemory. `flat`: all areas, one of which is `self`'s, or none.
inline constexpr const char* kNoMemory = "none";
std::string usable_memory(Runtime& runtime, const std::vector<MemberId>& members,
                          const std::vector<comm::HostPeer>& flat, Rank self);
// By what all members have said; `flat` has a place for each rank, or none.
void agree_on_memory(const std::vector<std::string>& said, std::vector<comm::HostPeer> flat,
                     ft::GroupConfig& config);

}  // namespace holdfast::runtime
