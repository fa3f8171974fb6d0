// Checks of what a caller asks for: before anything moves, and with an error that says what would
// be accepted.
#pragma once

#include "comm/communicator.h"

namespace holdfast::comm {

Status check_request(const OpRequest& request, Rank rank, int size);

}  // namespace holdfast::comm
