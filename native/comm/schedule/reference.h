// Reference executor: a deliberately dumb second implementation that all tests compare with. It
// runs all ranks' schedules in one thread on plain memory with the scalar reference kernels, and
// has no transport, no streaming and no fusion.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "comm/reduce/reducer.h"
#include "comm/schedule/layout.h"
#include "comm/schedule/schedule.h"

namespace holdfast::comm {

struct ReferenceRank {
  std::vector<Block> input;
  std::vector<Block> output;
};

// Fills every rank's output; returns kProtocolError when the schedules deadlock.
// `user`: in place of dtype and op; null: none.
Status run_reference(const std::vector<Schedule>& schedules, std::vector<ReferenceRank>& ranks,
                     DType dtype, ReduceOp op, const UserOp* user = nullptr);

}  // namespace holdfast::comm
