// Coordinator's address: how members name the process that coordinates their job, and how they
// reach it. Several addresses may be named; it leads at one of them.
// Why: docs/decisions/0026-a-coordinator-is-its-address.md and
// docs/decisions/0159-a-coordinator-may-be-at-one-of-several-addresses.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace holdfast::runtime {

// A leader and its standbys are two to five machines; each address costs a search up to a second.
inline constexpr std::size_t kMaxCoordinatorHosts = 8;

struct CoordinatorHost {
  std::string host;  // a name or a numeric address, without brackets
  std::uint16_t port = 0;
};

struct CoordinatorAddress {
  std::vector<CoordinatorHost> hosts;  // in the order in which they are tried
  std::string job;                     // tells the jobs of one coordinator apart; may be empty

  // The hosts as one text, the same in whatever order they are named.
  std::string sorted() const;
  // Made of sorted(): each process may have another one for its coordinator, since the coordinator
  // is in no view.
  MemberId member() const;
};

// "[holdfast://]host:port[,host:port...][/job]"; an IPv6 address stands in brackets. kConfigError
// with what is accepted.
Result<CoordinatorAddress> parse_coordinator(const std::string& text);

// Numeric addresses of a host, at least one. May take as long as a name server does. kConfigError
// for a name that cannot be resolved.
Result<std::vector<std::string>> resolve_coordinator(const std::string& host);

}  // namespace holdfast::runtime
