// Group report: what a member says of its groups when a view ends, or at a step boundary. Travels
// inside membership's messages: decoding is total and bounded.
// Why: docs/decisions/0021-whole-elements-are-held.md
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ft/message.h"
#include "group/repair.h"
#include "group/sharing.h"

namespace holdfast::group {

// What all members of a group say of it alike.
struct GroupIdentity {
  CommId id;
  std::string name;
  std::vector<Rank> world_ranks;  // by rank of the group
  bool shares_memory = false;     // what its cost model supposes
  bool whole = false;             // has all ranks of its world
  friend bool operator==(const GroupIdentity&, const GroupIdentity&) = default;
};

struct GroupReport {
  // Owners: the reports of all who say the same.
  std::shared_ptr<const GroupIdentity> group;
  std::uint64_t next_sequence = 0;  // of the next collective
  SharedMemory shared{};            // what the members of the view have agreed on
  std::vector<OpReport> ops;
  // Not kOk: the group has ended at this member, and so ends everywhere.
  Code failure = Code::kOk;
  std::vector<Rank> failed_ranks;
  std::string failure_text;
  friend bool operator==(const GroupReport& a, const GroupReport& b);
};

// What members say of one group. Owners: the view that it is of, and the groups that enter it.
using GroupReports = std::vector<std::pair<MemberId, std::shared_ptr<const GroupReport>>>;
// And of all their groups; those that say the same share it.
using WorldReports =
    std::vector<std::pair<MemberId, std::shared_ptr<const std::vector<GroupReport>>>>;

GroupReports reports_on(CommId group, const WorldReports& reports);

ft::Body encode(const std::vector<GroupReport>& reports);
Result<std::vector<GroupReport>> decode_reports(const ft::Body& body);
// What cannot be read is left out.
WorldReports decode_reports(const ft::Reports& reports);

}  // namespace holdfast::group
