// Relay addresses: the option relay, as text.
#pragma once

#include <string>
#include <vector>

#include "runtime/coordinator/address.h"

namespace holdfast::runtime {

// A relay for each site and one to spare.
inline constexpr std::size_t kMaxRelays = 4;

// "host:port[,host:port...]", as hosts of a coordinator are written. kConfigError else.
Result<std::vector<CoordinatorHost>> parse_relays(const std::string& text);

}  // namespace holdfast::runtime
