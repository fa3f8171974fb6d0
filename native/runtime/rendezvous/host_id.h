// Host identity: equal for two processes exactly when they can share memory.
#pragma once

#include <string>

namespace holdfast::runtime {

// Boot id of the kernel and the namespaces that shared memory and its clean-up live in.
std::string host_id();

}  // namespace holdfast::runtime
