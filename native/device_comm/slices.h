// How a staged op is cut into slices, ops of their own: pure.
//
// A slice has the same elements of every block, so that the n blocks of a gather or an exchange
// advance side by side, and what becomes of an element depends on it alone. How many there are is
// decided by what all ranks know alike. What is not cut: all_to_all, gather and scatter whose
// blocks may differ, since no rank knows the others' sizes; what a codec encodes in chunks of its
// own; what asks for one set of contributors; messages.
// Why: docs/decisions/0096-slices-of-a-gather.md
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace holdfast::device_comm {

// The op itself, where it is not cut. A slice is about `slice_bytes` of the op's larger side.
std::vector<comm::OpRequest> slices_of(const comm::OpRequest& request, int size,
                                       std::uint64_t slice_bytes);

// Whether an output block shares memory with an input block that it is not the same as: then no
// slice's result may be written before all slices' inputs have been read.
bool overlap(const comm::OpRequest& request);

}  // namespace holdfast::device_comm
