#include "health/http_address.h"

#include <arpa/inet.h>

#include <charconv>

#include "base/net/socket.h"

namespace holdfast::health {

Result<HttpAddress> parse_http_address(const std::string& text) {
  const Status refused{
      Code::kConfigError,
      "option http = \"" + text +
          "\"; accepted: empty, or host:port with a numeric host, \"localhost\" or "
          "no host (loopback), and a port from 0 (any) to 65535"};
  HttpAddress address;
  const std::size_t colon = text.rfind(':');
  address.host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return refused;
  }
  if (address.host.empty() || address.host == "localhost") address.host = "127.0.0.1";
  const char* end = port.data() + port.size();
  const auto [at, error] = std::from_chars(port.data(), end, address.port);
  if (port.empty() || error != std::errc{} || at != end ||
      !runtime::is_numeric_address(address.host)) {
    return refused;
  }
  return address;
}

bool is_loopback(const HttpAddress& address) {
  in6_addr v6{};
  if (::inet_pton(AF_INET6, address.host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return address.host.starts_with("127.");  // the address is numeric
}

std::string to_text(const HttpAddress& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace holdfast::health
