#include "base/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/forks.h"

namespace holdfast::runtime {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<SocketAddress> resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  if (getaddrinfo(endpoint.address.c_str(), port.c_str(), &hints, &found) != 0) {
    return Status{Code::kConfigError,
                  "address \"" + endpoint.address + "\" is not a numeric IPv4 or IPv6 address"};
  }
  SocketAddress result;
  std::memcpy(&result.storage, found->ai_addr, found->ai_addrlen);
  result.length = found->ai_addrlen;
  freeaddrinfo(found);
  return result;
}

// ::ffff:192.0.2.1, as IPv4 is seen by a socket of both families.
bool is_mapped(const in6_addr& address) { return IN6_IS_ADDR_V4MAPPED(&address) != 0; }

Status system_error(const std::string& what) {
  return {Code::kSystem, what + ": " + std::strerror(errno)};
}

int make_socket(const SocketAddress& where) {
  return open_unforked([&] {
    return ::socket(where.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  });
}

// kPeerLost when refused: no process listens there, for the one that did has gone.
Status connect_error(const Endpoint& endpoint) {
  const bool refused = errno == ECONNREFUSED;
  const Status status = system_error("cannot connect to " + to_string(endpoint));
  return refused ? Status(Code::kPeerLost, status.message()) : status;
}

// Small messages must not wait for acknowledgements of earlier ones.
void set_no_delay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

}  // namespace

std::string to_string(const Endpoint& endpoint) {
  const bool brackets = endpoint.address.find(':') != std::string::npos;
  const std::string host = brackets ? "[" + endpoint.address + "]" : endpoint.address;
  return host + ":" + std::to_string(endpoint.port);
}

bool is_numeric_address(const std::string& address) { return resolve({address, 0}).is_ok(); }

Result<int> listen_on(const std::string& address, std::uint16_t port) {
  if (address.empty()) {
    auto both = listen_on("::", port);
    if (both.is_ok()) return both;
  }
  const Endpoint endpoint{address.empty() ? "0.0.0.0" : address, port};
  auto where = resolve(endpoint);
  if (!where.is_ok()) return where.status();
  const int fd = make_socket(where.value());
  if (fd < 0) return system_error("cannot make a socket");
  const int one = 1;
  const int zero = 0;
  // Whatever the system's default is. On a socket of IPv4 it fails, and nothing is missing.
  ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  if (port != 0) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(fd, where.value().get(), where.value().length) != 0 || ::listen(fd, 1024) != 0) {
    const Status status =
        system_error("cannot listen on " + to_string(endpoint) + " (options address and port)");
    close_unforked(fd);
    return status;
  }
  return fd;
}

Result<std::uint16_t> local_port(int fd) {
  SocketAddress at;
  at.length = sizeof at.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&at.storage), &at.length) != 0) {
    return system_error("getsockname");
  }
  const std::uint16_t port = at.storage.ss_family == AF_INET6
                                 ? reinterpret_cast<const sockaddr_in6*>(&at.storage)->sin6_port
                                 : reinterpret_cast<const sockaddr_in*>(&at.storage)->sin_port;
  return static_cast<std::uint16_t>(ntohs(port));
}

Result<int> start_connect(const Endpoint& endpoint) {
  auto where = resolve(endpoint);
  if (!where.is_ok()) return where.status();
  const int fd = make_socket(where.value());
  if (fd < 0) return system_error("cannot make a socket");
  set_no_delay(fd);
  if (::connect(fd, where.value().get(), where.value().length) != 0 && errno != EINPROGRESS) {
    const Status status = connect_error(endpoint);
    close_unforked(fd);
    return status;
  }
  return fd;
}

Status connect_outcome(int fd, const Endpoint& endpoint) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0) return Status::ok();
  errno = error;
  return connect_error(endpoint);
}

int accept_one(int listener) {
  const int fd = open_unforked(
      [&] { return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (fd >= 0) set_no_delay(fd);
  return fd;
}

std::string peer_address(int fd) {
  sockaddr_storage there{};
  socklen_t length = sizeof there;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &length) != 0) return {};
  const void* address = &reinterpret_cast<const sockaddr_in&>(there).sin_addr;
  int family = there.ss_family;
  if (family == AF_INET6) {
    const in6_addr& wide = reinterpret_cast<const sockaddr_in6&>(there).sin6_addr;
    address = &wide;
    if (is_mapped(wide)) {
      family = AF_INET;
      address = &wide.s6_addr[12];
    }
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_ntop(family, address, text.data(), text.size()) == nullptr) return {};
  return text.data();
}

bool is_same_host(int fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t length = sizeof here;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &length) != 0) return false;
  length = sizeof there;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &length) != 0) return false;
  if (here.ss_family != there.ss_family) return false;
  if (here.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(here).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(there).sin_addr.s_addr;
  }
  const auto& a = reinterpret_cast<const sockaddr_in6&>(here).sin6_addr;
  const auto& b = reinterpret_cast<const sockaddr_in6&>(there).sin6_addr;
  return std::memcmp(&a, &b, sizeof a) == 0;
}

void do_not_pace(int fd) {
  // Every kernel has it, and lets every process use it. If it is refused, the connection works as
  // before.
  constexpr std::string_view kPlain = "reno";
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kPlain.data(), kPlain.size());
}

std::vector<std::string> interface_addresses() {
  constexpr std::size_t kMostOfFamily = 6;
  std::vector<std::string> four;
  std::vector<std::string> six;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) == 0) {
    for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
      const bool usable = i->ifa_addr != nullptr && (i->ifa_flags & IFF_UP) != 0 &&
                          (i->ifa_flags & IFF_LOOPBACK) == 0;
      if (!usable) continue;
      std::array<char, INET6_ADDRSTRLEN> text{};
      if (i->ifa_addr->sa_family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
        ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
        four.emplace_back(text.data());
      } else if (i->ifa_addr->sa_family == AF_INET6) {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr);
        if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
        ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
        six.emplace_back(text.data());
      }
    }
    ::freeifaddrs(all);
  }
  four.resize(std::min(four.size(), kMostOfFamily));
  six.resize(std::min(six.size(), kMostOfFamily));
  four.insert(four.end(), six.begin(), six.end());
  four.emplace_back("127.0.0.1");
  return four;
}

}  // namespace holdfast::runtime
