// What a caller asks for: its size, and checks, before anything moves, with an error that says what
// would be accepted.
#pragma once

#include "comm/communicator.h"

namespace holdfast::comm {

// The larger of what goes in and what comes out.
std::uint64_t payload_bytes(const OpRequest& request);
// Whether that is the same on all ranks, so that they decide alike by it.
bool is_sized_alike(const OpRequest& request);

// Whether a codec that nobody asked for by name may carry the op: a sum or an average of floating
// elements, of `least` bytes or more, that shrinks by it; with a lossless one also what is moved as
// it is, where all ranks know alike how much that is.
bool is_worth_coding(const OpRequest& request, const compress::Codec& codec, std::uint64_t least);

Status check_request(const OpRequest& request, Rank rank, int size);

}  // namespace holdfast::comm
