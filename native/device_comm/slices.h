// How a staged op is cut into slices, ops of their own: pure.
//
// A slice has the same elements of every block, so that the n blocks of a gather or an exchange
// advance side by side, and what becomes of an element depends on it alone. The number of slices
// follows from what all ranks know alike. Not cut are: all_to_all, gather and scatter whose blocks
// may differ, since no rank knows the others' sizes; ops that a codec encodes in chunks of its own;
// ops that ask for one set of contributors; messages.
// Why: docs/decisions/0096-slices-of-a-gather.md
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::device_comm {

// The op's slices, or the op itself where it is not cut. A slice is about `slice_bytes` of the op's
// larger side.
std::vector<comm::OpRequest> slices_of(const comm::OpRequest& request, int size,
                                       std::uint64_t slice_bytes);

// Whether an output block shares memory with an input block other than itself: then no slice's
// result may be written before all slices' inputs have been read.
bool overlap(const comm::OpRequest& request);

}  // namespace holdfast::device_comm
