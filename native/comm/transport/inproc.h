// In-process pipe: two links of one process joined by bounded queues. It serves tests, the
// simulator's parity suite and ranks that are threads. Each frame is copied once on either side.
#pragma once

#include <memory>
#include <utility>

#include "comm/transport/link.h"

namespace holdfast::comm {

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_inproc_pair();

}  // namespace holdfast::comm
