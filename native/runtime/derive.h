// Derive: makes a group of a parent's members without a meeting. See Node::derive().
// Why: docs/decisions/0138-groups-without-a-meeting.md
#pragma once

#include <memory>

#include "runtime/node.h"
#include "runtime/user_group.h"

namespace holdfast::runtime {

// Limit of the derived groups that a process has at a time: a view change reports on all of them.
inline constexpr std::size_t kMostDerived = 24 * 1024;

// Null: this process is not among the ranks.
Result<std::shared_ptr<group::Group>> derive_group(Runtime& runtime, UserGroup& parent,
                                                   const DeriveRequest& request);

}  // namespace holdfast::runtime
