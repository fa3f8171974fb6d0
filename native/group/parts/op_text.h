// Op text: an op, and why it failed, in words for people.
#pragma once

#include <string>

#include "comm/call/op_work.h"
#include "group/parts/roster.h"

namespace holdfast::group {

// "all_reduce #3 of group job"
std::string op_text(const comm::OpWork& work, const std::string& group);
// `cause`, which does not name the op, completed with the op as it was in that epoch.
Status describe(const comm::OpWork& work, const Status& cause, const std::string& group,
                const Roster& roster, Epoch epoch);

}  // namespace holdfast::group
