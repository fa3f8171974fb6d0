// Paths over shared memory: the caller makes a link's segment and names it, the answerer maps it;
// each also names its bell, which the other rings.
#pragma once

#include <memory>

#include "comm/transport/catalogue.h"

namespace holdfast::comm {

// Null where the process has no bell that others can ring.
Result<std::unique_ptr<PathMaker>> open_shm(const PathSettings& settings);
// kConfigError where no shared memory can be made.
Result<std::string> look_at_shm();

}  // namespace holdfast::comm
