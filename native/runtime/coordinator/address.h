// Coordinator's address: how members name the process that coordinates their job, and how they
// reach it.
// Why: docs/decisions/0026-a-coordinator-is-its-address.md
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "runtime/rendezvous/card.h"

namespace holdfast::runtime {

struct CoordinatorAddress {
  std::string host;  // a name or a numeric address
  std::uint16_t port = 0;
  std::string job;  // tells jobs of one coordinator apart; may be empty

  // Name under which the coordinator knows a group of this job.
  std::string world_name(const std::string& group) const;
};

// "[holdfast://]host:port[/job]"; an IPv6 address stands in brackets. kConfigError with what is
// accepted.
Result<CoordinatorAddress> parse_coordinator(const std::string& text);

// How to call it. Its MemberId is made of the address: every process may have its own for it, for
// no view has the coordinator. May take as long as a name server does. kConfigError for a name that
// nobody knows.
Result<Card> find_coordinator(const CoordinatorAddress& address);

}  // namespace holdfast::runtime
