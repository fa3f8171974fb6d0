// Derivation: the names of groups that are made of a group's members without a meeting. All members
// of the new group find the same name by themselves: from the parent's name, its last step
// boundary, the members, and how many groups were made so since; a member that came in at the
// boundary counts as the others do. No two groups in the life of a world have the same name, as far
// as 64 bits of a hash can tell (one in 10^11 with 10,000 groups).
//
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/result.h"

namespace holdfast::group {

// Names that the members alone count: by tag and members. Each needs a place in a table until the
// next step boundary, because its next use must be told from this one.
inline constexpr std::size_t kMostMemberKeys = 1U << 16;

class Derivation {
 public:
  explicit Derivation(CommId parent) : parent_(parent) {}

  // For what all members of the parent call in the same order, those included that are in no new
  // group: counts the call.
  // `boundary`: the epoch of the parent's last one.
  std::uint64_t count_call(Epoch boundary);
  // The group of these ranks of the parent that such a call makes. Groups of one call differ in
  // their members.
  CommId of_call(Epoch boundary, std::uint64_t call, const std::vector<Rank>& ranks) const;
  // For what the members of the new group alone call, in the same order: counts the call.
  // kConfigError when kMostMemberKeys is reached.
  Result<CommId> of_members(Epoch boundary, std::uint64_t tag, const std::vector<Rank>& ranks);

 private:
  void begin(Epoch boundary);

  const CommId parent_;
  std::mutex mutex_;  // guards all below
  Epoch boundary_;
  std::uint64_t calls_ = 0;  // of all members
  // By hash of tag and members: calls of those members.
  std::map<std::uint64_t, std::uint64_t> member_calls_;
};

}  // namespace holdfast::group
