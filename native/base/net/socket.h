// Sockets: the few system calls of TCP with errors that name address and port. All sockets are
// non-blocking and absent in forked children; close_unforked() closes one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace holdfast::runtime {

struct Endpoint {
  std::string address;  // numeric IPv4 or IPv6
  std::uint16_t port = 0;
};

std::string to_string(const Endpoint& endpoint);
bool is_numeric_address(const std::string& address);

// Listens on `address` (empty: all interfaces, by IPv6 and IPv4 where the system has both) and port
// (0: any). kConfigError for a text that is no address.
Result<int> listen_on(const std::string& address, std::uint16_t port);
Result<std::uint16_t> local_port(int fd);
// Starts to connect; the socket becomes writable when the attempt has ended, see connect_outcome().
Result<int> start_connect(const Endpoint& endpoint);
Status connect_outcome(int fd, const Endpoint& endpoint);
// A pending connection, non-blocking, or -1.
int accept_one(int listener);
// The numeric address of the other end, of IPv4 as such even where it calls a socket of both
// families; empty: there is none.
std::string peer_address(int fd);
// Whether both ends of a connection have the same address, as for processes that share cores.
bool is_same_host(int fd);
// For a connection inside one host: no packets are lost there, so none need be paced or probed.
void do_not_pace(int fd);
// Addresses of this host's interfaces that are up: of IPv4, then of IPv6 those that hold beyond a
// link, then loopback.
std::vector<std::string> interface_addresses();

}  // namespace holdfast::runtime
