// Call log: the latest calls of this rank, and the calls that other ranks report they wait in. Two
// ranks that disagree on a number are found here, whichever of them calls first. Without I/O.
//
// Thread: only the holder of the runtime.
// Why: docs/decisions/0012-who-called-what.md
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/fnv.h"
#include "comm/call/call.h"

namespace holdfast::comm {

// A rank that is further ahead has ended the op in question long ago.
inline constexpr std::size_t kCallsKept = 256;
// Reported calls kept per peer, which sends one per op that stalls; the time limit finds the rest.
inline constexpr std::size_t kHeardKept = 64;

struct Disagreement {
  Rank with;
  OpSeq sequence;
};

class CallLog {
 public:
  explicit CallLog(std::size_t ranks) : heard_(ranks) {}

  // Records this rank's next call. Returns the disagreement if a peer waits in another call.
  std::optional<Disagreement> record(const Call& call);
  // A peer waits in this call.
  std::optional<Disagreement> hear(Rank from, const Call& call);
  CallReport report(OpSeq sequence) const;
  // Hash of all calls before the latest.
  std::uint32_t history() const { return history_; }

 private:
  const Call* find(OpSeq sequence) const;
  const Call& own(std::size_t i) const { return own_[(first_ + i) % own_.size()]; }
  const Call& latest() const { return own(own_.size() - 1); }

  std::vector<Call> own_;  // a ring once it has kCallsKept; its first is own(0)
  std::size_t first_ = 0;
  std::uint32_t history_ = 0;
  std::uint32_t next_history_ = Fnv1a32().value();
  std::vector<std::deque<Call>> heard_;  // by rank: calls not made here yet
};

}  // namespace holdfast::comm
