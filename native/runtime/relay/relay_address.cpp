#include "runtime/relay/relay_address.h"

#include <utility>

namespace holdfast::runtime {

Result<std::vector<CoordinatorHost>> parse_relays(const std::string& text) {
  auto address = parse_coordinator(text);
  const bool plain = address.is_ok() && text.find('/') == std::string::npos;
  if (!plain || address.value().hosts.size() > kMaxRelays) {
    return Status{Code::kConfigError, "relay \"" + text + "\"; accepted: host:port, up to " +
                                          std::to_string(kMaxRelays) +
                                          " of them with commas between"};
  }
  return std::move(address).value().hosts;
}

}  // namespace holdfast::runtime
