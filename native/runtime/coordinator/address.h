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
  std::string job;  // tells the jobs of one coordinator apart; may be empty

  // Name under which the coordinator knows a group of this job.
  std::string world_name(const std::string& group) const;
};

// "[holdfast://]host:port[/job]"; an IPv6 address stands in brackets. kConfigError with what is
// accepted.
Result<CoordinatorAddress> parse_coordinator(const std::string& text);

// A card with which to call the coordinator. Its MemberId is made of the address: each process may
// have another one for it, since the coordinator is in no view. May take as long as a name server
// does. kConfigError for a name that cannot be resolved.
Result<Card> find_coordinator(const CoordinatorAddress& address);

}  // namespace holdfast::runtime
