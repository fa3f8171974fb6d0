#include "runtime/coordinator/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <memory>
#include <string_view>

#include "base/fnv.h"
#include "base/net/socket.h"

namespace holdfast::runtime {
namespace {

constexpr std::string_view kScheme = "holdfast://";
constexpr std::size_t kMaxJobName = 128;
// The longest name that the domain name system has.
constexpr std::size_t kMaxHostName = 253;
// Cards have room for so many characters of a list.
constexpr std::size_t kMaxListed = 1024;

Status refuse(const std::string& text, const std::string& why) {
  return {Code::kConfigError,
          "coordinator \"" + text + "\": " + why +
              "; accepted: host:port or host:port/NAME with a port of 1 to 65535 and a name of "
              "at most 128 characters, with or without holdfast:// before it; an address of IPv6 "
              "in brackets: [2001:db8::7]:29400; up to " +
              std::to_string(kMaxCoordinatorHosts) + " of them with commas between, " +
              std::to_string(kMaxListed) +
              " characters in all, where the coordinator may be at one of several: "
              "host:port,host:port/NAME. Name each address once"};
}

// One address has one text.
std::string plain(const CoordinatorHost& at) {
  std::string host = at.host;
  std::array<char, INET6_ADDRSTRLEN> text{};
  in6_addr six{};
  if (::inet_pton(AF_INET6, host.c_str(), &six) == 1) {
    host = ::inet_ntop(AF_INET6, &six, text.data(), text.size());
  }
  std::transform(host.begin(), host.end(), host.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return to_string(Endpoint{host, at.port});
}

// Empty: it can be used. Otherwise what is wrong.
std::string read_host(const std::string& text, CoordinatorHost& at) {
  const std::string quoted = "\"" + text + "\" ";
  if (text.empty()) return "an address is missing beside a comma";
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return quoted + "is no host:port";
  at.host = text.substr(0, colon);
  if (at.host.starts_with('[') && at.host.ends_with(']')) {
    at.host = at.host.substr(1, at.host.size() - 2);
  } else if (at.host.find(':') != std::string::npos) {
    return quoted + "has more than one colon";
  }
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, at.port);
  if (error != std::errc{} || stop != end || at.port == 0) return quoted + "has no such port";
  if (at.host.empty() || at.host.size() > kMaxHostName) return quoted + "has no such host";
  const bool spaced = std::any_of(at.host.begin(), at.host.end(),
                                  [](unsigned char c) { return std::isspace(c) != 0; });
  return spaced ? quoted + "has a space" : "";
}

}  // namespace

std::string CoordinatorAddress::sorted() const {
  std::vector<std::string> texts;
  texts.reserve(hosts.size());
  for (const CoordinatorHost& at : hosts) texts.push_back(plain(at));
  std::sort(texts.begin(), texts.end());
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ",") + text;
  return all;
}

MemberId CoordinatorAddress::member() const {
  Fnv1a hash;
  hash.mix(sorted());
  return {hash.value() | 1};
}

Result<CoordinatorAddress> parse_coordinator(const std::string& text) {
  std::string rest = text.starts_with(kScheme) ? text.substr(kScheme.size()) : text;
  CoordinatorAddress address;
  if (const auto slash = rest.find('/'); slash != std::string::npos) {
    address.job = rest.substr(slash + 1);
    rest.resize(slash);
  }
  if (address.job.size() > kMaxJobName) return refuse(text, "the name is too long");
  std::vector<std::string> known;
  for (std::size_t from = 0; from <= rest.size();) {
    const std::size_t to = std::min(rest.find(',', from), rest.size());
    CoordinatorHost at;
    const std::string wrong = read_host(rest.substr(from, to - from), at);
    if (!wrong.empty()) return refuse(text, wrong);
    known.push_back(plain(at));
    if (std::count(known.begin(), known.end(), known.back()) > 1) {
      return refuse(text, known.back() + " is named twice");
    }
    if (known.size() > kMaxCoordinatorHosts) return refuse(text, "too many addresses");
    address.hosts.push_back(std::move(at));
    from = to + 1;
  }
  if (address.hosts.size() > 1 && address.sorted().size() > kMaxListed) {
    return refuse(text, "the addresses are too long");
  }
  return address;
}

Result<std::vector<std::string>> resolve_coordinator(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  if (error != 0) {
    return Status{Code::kConfigError, "coordinator \"" + host + "\": " + ::gai_strerror(error) +
                                          " (option coordinator: host:port)"};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    const int failed = ::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr,
                                     0, NI_NUMERICHOST);
    if (failed == 0) addresses.emplace_back(text.data());
  }
  if (addresses.empty()) {
    return Status{Code::kConfigError, "coordinator \"" + host + "\" has no address"};
  }
  return addresses;
}

}  // namespace holdfast::runtime
