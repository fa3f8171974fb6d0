// Keeper group: the ops that simulated keepers run together, with the outcomes that Holdfast's
// have: one for all that survive. Whoever is lost may have been told of another one, or may not be
// in it though it took part.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ft/snapshots/code_groups.h"
#include "ft/snapshots/snapshot_events.h"
#include "sim/random.h"
#include "sim/state/state_ledger.h"

namespace holdfast::sim {

// What a member brings to an op.
struct OpShare {
  ft::SnapshotDo what{};
  ft::PartTold told;
  bool ok = false;
  bool flushing = false;
  std::vector<SimTile> body;  // for the code
  ft::SnapshotId id;
};

struct KeeperOp {
  std::vector<std::optional<OpShare>> in;  // by rank
  bool decided = false;
  std::set<int> missing;
  std::set<int> told;  // who has the outcome
};

struct KeeperGroup {
  std::uint32_t epoch = 0;
  std::vector<int> seats;  // by rank
  std::vector<PartHolder> keepers;
  std::vector<ft::CodeGroup> codes;
  std::set<int> lost;  // ranks
  std::vector<KeeperOp> ops;
  std::map<ft::SnapshotId, KeeperOp> flushes;

  int size() const { return static_cast<int>(seats.size()); }
  int rank_of(int seat) const {
    for (int rank = 0; rank < size(); ++rank) {
      if (seats[static_cast<std::size_t>(rank)] == seat) return rank;
    }
    return -1;
  }
  // The share is in; true: everybody's is, and the outcome is decided.
  bool join(KeeperOp& op, int rank, OpShare share);
  // Ops whose outcome is decided by this loss, and those whose outcome it changes, are so.
  std::vector<KeeperOp*> lose(int rank, Random& random);
  // Empty: all do the same in it.
  std::string complaint(const KeeperOp& op) const;

 private:
  bool decide(KeeperOp& op);
};

}  // namespace holdfast::sim
