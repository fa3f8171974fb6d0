// What a caller asks for: its size, and checks, before anything moves, with an error that says what
// would be accepted.
#pragma once

#include "comm/communicator.h"

namespace holdfast::comm {

// The larger of what goes in and what comes out.
std::uint64_t payload_bytes(const OpRequest& request);

Status check_request(const OpRequest& request, Rank rank, int size);

}  // namespace holdfast::comm
