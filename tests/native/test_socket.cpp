// Sockets of both families: one listener for all interfaces, and addresses as people write them.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/forks.h"
#include "base/net/socket.h"
#include "runtime/coordinator/address.h"

namespace holdfast::runtime {
namespace {

bool has_ipv6() {
  const auto listener = listen_on("::1", 0);
  if (!listener.is_ok()) return false;
  close_unforked(listener.value());
  return true;
}

TEST_CASE("a listener on all interfaces is called by either family") {
  const int listener = listen_on("", 0).value();
  std::vector<std::string> callers{"127.0.0.1"};
  if (has_ipv6()) {
    callers.emplace_back("::1");
  } else {
    MESSAGE("no row of ::1: the test waits for a system with IPv6");
  }
  for (const std::string& address : callers) {
    CAPTURE(address);
    const int caller = start_connect({address, local_port(listener).value()}).value();
    pollfd look{listener, POLLIN, 0};
    REQUIRE(::poll(&look, 1, 5000) == 1);
    const int callee = accept_one(listener);
    REQUIRE(callee >= 0);
    CHECK(peer_address(callee) == address);
    CHECK(peer_address(caller) == address);
    CHECK(is_same_host(callee));
    close_unforked(caller);
    close_unforked(callee);
  }
  close_unforked(listener);
}

TEST_CASE("an address of IPv6 stands in brackets before a port") {
  CHECK(to_string(Endpoint{"2001:db8::7", 29400}) == "[2001:db8::7]:29400");
  CHECK(to_string(Endpoint{"203.0.113.7", 29400}) == "203.0.113.7:29400");
  const auto sound = parse_coordinator("holdfast://[2001:db8::7]:29400/run7");
  REQUIRE(sound.is_ok());
  REQUIRE(sound.value().hosts.size() == 1);
  CHECK(sound.value().hosts[0].host == "2001:db8::7");
  CHECK(sound.value().hosts[0].port == 29400);
  CHECK(sound.value().job == "run7");
  for (const char* wrong : {"2001:db8::7:29400", "::1:29400/run", "[2001:db8::7:29400"}) {
    const auto refused = parse_coordinator(wrong);
    CAPTURE(wrong);
    REQUIRE_FALSE(refused.is_ok());
    CHECK(refused.status().message().find(wrong) != std::string::npos);
    CHECK(refused.status().message().find("in brackets: [2001:db8::7]:29400") != std::string::npos);
  }
}

TEST_CASE("interfaces have no addresses that hold on one link alone, and loopback comes last") {
  const std::vector<std::string> all = interface_addresses();
  REQUIRE_FALSE(all.empty());
  CHECK(all.back() == "127.0.0.1");
  for (const std::string& address : all) CHECK_FALSE(address.starts_with("fe80"));
}

}  // namespace
}  // namespace holdfast::runtime
