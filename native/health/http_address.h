// HTTP address: where pages are served, as the option http says it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace holdfast::health {

struct HttpAddress {
  std::string host;  // numeric
  std::uint16_t port = 0;
};

// Parses "host:port", ":port" or "port"; no host, or "localhost", means 127.0.0.1. An IPv6 address
// stands in brackets. kConfigError names the accepted forms.
Result<HttpAddress> parse_http_address(const std::string& text);

// Whether nobody on another host can connect there.
bool is_loopback(const HttpAddress& address);
// "host:port"; an IPv6 address gets brackets: "[::1]:80".
std::string to_text(const HttpAddress& address);

}  // namespace holdfast::health
