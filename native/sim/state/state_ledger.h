// State ledger: what snapshots were committed and flushed, who holds their parts, and whether what
// take() promises and what a restore gives is what the guarantees say: S1 to S5 of
// docs/decisions/0187; S6 is that the shards of a restored state are the right ones in any world.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ft/snapshots/choice.h"
#include "ft/snapshots/code_groups.h"
#include "sim/state/sim_part.h"

namespace holdfast::sim {

// A process, or a disk, by its place and which one it is there.
struct PartHolder {
  int place = 0;
  std::uint32_t incarnation = 0;
  auto operator<=>(const PartHolder&) const = default;
};

class StateLedger {
 public:
  using IsThere = std::function<bool(const PartHolder&)>;

  // A trainer of this life of the training begins to take the snapshot.
  void begin(const ft::SnapshotId& id, std::uint32_t life);
  void commit(const ft::SnapshotId& id, const std::vector<ft::CodeGroup>& groups,
              const std::vector<PartHolder>& keepers);
  void flush(const ft::SnapshotId& id, const std::vector<ft::CodeGroup>& groups,
             const std::vector<PartHolder>& disks);
  // A fault has changed what the keeper, or the disk, has of it.
  void damage(const ft::SnapshotId& id, const PartHolder& holder) { damaged_.insert({id, holder}); }

  // S2 and S5: take(step) returns at a trainer and says that `before` is safe.
  void promise(std::uint32_t life, std::uint64_t before, const IsThere& is_there,
               const std::string& who);
  // What all go on from, or that there is nothing; `with_storage`: files were asked, too.
  void choose(const std::optional<ft::SnapshotId>& chosen, const IsThere& keeper_reports,
              const IsThere& disk_is_there, bool with_storage);
  // S1, S3, S6: the restored tiles of all shards.
  void restore(const ft::SnapshotId& id, const std::vector<SimTile>& tiles);

  bool is_known(const ft::SnapshotId& id) const { return lives_.contains(id); }
  bool is_committed(const ft::SnapshotId& id) const { return committed_.contains(id); }
  std::uint32_t life_of(const ft::SnapshotId& id) const { return lives_.at(id); }
  std::size_t commits() const { return commits_; }
  std::size_t flushes() const { return flushes_; }
  void wrong(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }
  const std::string& violation() const { return violation_; }

 private:
  struct LedgerEntry {
    std::vector<ft::CodeGroup> groups;
    std::vector<PartHolder> holders;  // by rank
  };
  using LedgerEntries = std::map<ft::SnapshotId, LedgerEntry>;

  bool stands(const ft::SnapshotId& id, const LedgerEntry& entry, const IsThere& is_there) const;

  std::map<ft::SnapshotId, std::uint32_t> lives_;
  LedgerEntries committed_;
  LedgerEntries flushed_;
  std::set<std::pair<ft::SnapshotId, PartHolder>> damaged_;
  std::size_t commits_ = 0;
  std::size_t flushes_ = 0;
  std::string violation_;
};

}  // namespace holdfast::sim
