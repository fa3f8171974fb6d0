#include "runtime/coordinator/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>

#include "base/fnv.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kScheme = "holdfast://";
constexpr std::size_t kMaxJobName = 128;

MemberId id_of(const std::string& text) {
  Fnv1a hash;
  hash.mix(text);
  return {hash.value() | 1};
}

Status refuse(const std::string& text) {
  return {Code::kConfigError,
          "coordinator \"" + text +
              "\"; accepted: host:port or host:port/NAME with a port of 1 to 65535 and a name of "
              "at most 128 characters, with or without holdfast:// before it; an address of IPv6 "
              "in brackets: [2001:db8::7]:29400"};
}

}  // namespace

std::string CoordinatorAddress::world_name(const std::string& group) const {
  return job.empty() ? group : job + "/" + group;
}

Result<CoordinatorAddress> parse_coordinator(const std::string& text) {
  std::string rest = text.starts_with(kScheme) ? text.substr(kScheme.size()) : text;
  CoordinatorAddress address;
  if (const auto slash = rest.find('/'); slash != std::string::npos) {
    address.job = rest.substr(slash + 1);
    rest.resize(slash);
  }
  const auto colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0) return refuse(text);
  address.host = rest.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return refuse(text);
  }
  const char* end = rest.data() + rest.size();
  const auto [at, error] = std::from_chars(rest.data() + colon + 1, end, address.port);
  const bool sound = error == std::errc{} && at == end && address.port != 0 &&
                     address.job.size() <= kMaxJobName && !address.host.empty();
  if (!sound) return refuse(text);
  return address;
}

Result<Card> find_coordinator(const CoordinatorAddress& address) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), nullptr, &wanted, &found);
  if (error != 0) {
    return Status{Code::kConfigError, "coordinator \"" + address.host +
                                          "\": " + ::gai_strerror(error) +
                                          " (option coordinator: host:port)"};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  Card card;
  card.member = id_of(address.host + ":" + std::to_string(address.port));
  card.port = address.port;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    const int failed = ::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr,
                                     0, NI_NUMERICHOST);
    if (failed == 0) card.addresses.emplace_back(text.data());
  }
  if (card.addresses.empty()) {
    return Status{Code::kConfigError, "coordinator \"" + address.host + "\" has no address"};
  }
  return card;
}

}  // namespace holdfast::runtime
