// Group report: what a member says of its groups when a view ends, or at a step boundary. Travels
// inside membership's messages: decoding is total and bounded.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ft/group_repair.h"
#include "ft/group_sharing.h"
#include "ft/message.h"

namespace holdfast::ft {

struct GroupReport {
  CommId id;
  std::string name;
  std::vector<Rank> world_ranks;    // by rank of the group
  std::uint64_t next_sequence = 0;  // of the next collective
  bool shares_memory = false;       // what its cost model supposes
  bool whole = false;               // has all ranks of its world
  SharedMemory shared{};            // what the members of the view have agreed on
  std::vector<OpReport> ops;
  // Not kOk: the group has ended at this member, and so ends everywhere.
  Code failure = Code::kOk;
  std::vector<Rank> failed_ranks;
  std::string failure_text;
  friend bool operator==(const GroupReport&, const GroupReport&) = default;
};

Bytes encode(const std::vector<GroupReport>& reports);
Result<std::vector<GroupReport>> decode_reports(std::span<const std::byte> bytes);

}  // namespace holdfast::ft
