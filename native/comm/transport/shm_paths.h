// Paths over shared memory. The caller makes a link's segment and names it, and the answerer maps
// it; each side also names its bell, which the other rings.
#pragma once

#include <memory>

#include "comm/transport/catalogue.h"

namespace holdfast::comm {

// Makes the transport; null where the process has no bell that others can ring.
Result<std::unique_ptr<PathMaker>> open_shm(const PathSettings& settings);
// Returns kConfigError where no shared memory can be made.
Result<std::string> look_at_shm();

}  // namespace holdfast::comm
