// Ledger: what every simulated process saw, and whether it is consistent: the guarantees G1 to G7,
// each a small check, over all processes that ever ran, including those that died, left or were
// voted out later.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/fnv.h"
#include "comm/communicator.h"
#include "ft/message.h"
#include "sim/program.h"

namespace holdfast::sim {

// A float sum as one process got it, in an op that no loss interrupted.
struct FloatSum {
  std::vector<Rank> contributors;
  std::uint64_t bits = 0;
  friend bool operator==(const FloatSum&, const FloatSum&) = default;
};

class Ledger {
 public:
  // An op of the program has ended at a process: the op's number, its memory, status and outcome.
  void on_ended(int process, int op, const OpData& data, const Status& status,
                const comm::Outcome& outcome);
  // A process has adopted the view of a world.
  void on_view(int process, CommId world, const ft::WorldView& view);
  // The process has died, which other processes can know.
  void on_death(int process) { dead_.insert(process); }
  void on_wrong(int process, const std::string& what);

  // Checks what can only be checked at the end; `survivors`: the processes that ran to the end.
  void compare(const std::vector<int>& survivors);

  // Whether a process has adopted a view of that epoch, and the view is without this member.
  bool is_outside(CommId world, Epoch epoch, MemberId member) const;
  // Whether a process has adopted a view after that epoch that is without this member.
  bool has_lost(CommId world, Epoch epoch, MemberId member) const;
  bool ok() const { return violation_.empty(); }
  const std::string& violation() const { return violation_; }
  std::uint64_t ops() const { return ops_; }
  std::uint64_t hash() const { return hash_.value(); }
  // By op and rank: the sums in which the order of their operands shows.
  const std::map<std::pair<int, int>, FloatSum>& float_sums() const { return float_sums_; }

 private:
  struct EndedOp {
    std::uint32_t code = 0;
    std::uint64_t fingerprint = 0;
    bool replicated = false;
    comm::Outcome outcome;
    std::vector<Rank> lost;  // the ranks that PeerLost names
    Rank rank;
  };
  struct Adopted {
    std::set<int> processes;
    std::vector<MemberId> members;
  };

  void mix(std::uint64_t value) { hash_.mix(value); }
  void judge(int process, int op, const OpData& data, const Status& status,
             const comm::Outcome& outcome);
  void compare(int op, int process, const EndedOp& ended, const EndedOp& first);
  bool drop_dead_branch(CommId world, Epoch epoch);
  void look_for_returns();
  void look_for_splits();

  std::map<int, std::map<int, EndedOp>> ended_;                              // by op, by process
  std::map<std::pair<int, std::uint32_t>, std::pair<int, EndedOp>> firsts_;  // by op and epoch
  std::map<std::pair<CommId, std::uint32_t>, Adopted> views_;                // by world and epoch
  std::set<int> dead_;
  std::set<int> branched_off_;                      // died in views that no living process knows of
  std::map<std::pair<int, CommId>, Epoch> epochs_;  // by process: the last epoch
  std::map<std::pair<int, int>, FloatSum> float_sums_;
  std::string violation_;
  std::uint64_t ops_ = 0;
  Fnv1a hash_;
};

}  // namespace holdfast::sim
