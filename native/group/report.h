// Group report: what a member reports of its groups when a view ends, or at a step boundary.
// Travels inside membership messages: decoding is total and bounded.
// Why: docs/decisions/0021-whole-elements-are-held.md
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ft/message.h"
#include "group/repair.h"
#include "group/sharing.h"

namespace holdfast::group {

// What all members of a group report alike.
struct GroupIdentity {
  CommId id;
  std::string name;
  std::vector<Rank> world_ranks;  // by rank of the group
  bool shares_memory = false;     // its cost model assumes shared memory
  bool whole = false;             // has all ranks of its world
  bool derived = false;           // nobody can come into it
  // At a step boundary, the map of links that it has taken, for newcomers; 0 and null: none.
  std::uint32_t map_version = 0;
  std::shared_ptr<const std::string> map = nullptr;  // owners: as TakenMap's
  friend bool operator==(const GroupIdentity& a, const GroupIdentity& b);
};

struct GroupReport {
  // Owners: the reports that have the same identity.
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

// The members' reports on one group. Owners: the view that they end, and the groups that enter it.
using GroupReports = std::vector<std::pair<MemberId, std::shared_ptr<const GroupReport>>>;
// The members' reports on all their groups; equal reports are shared.
using WorldReports =
    std::vector<std::pair<MemberId, std::shared_ptr<const std::vector<GroupReport>>>>;

GroupReports reports_on(CommId group, const WorldReports& reports);
std::map<CommId, GroupReports> by_group(const WorldReports& reports);

ft::Body encode(const std::vector<GroupReport>& reports);
Result<std::vector<GroupReport>> decode_reports(const ft::Body& body);
// Reports that cannot be decoded are left out.
WorldReports decode_reports(const ft::Reports& reports);

}  // namespace holdfast::group
