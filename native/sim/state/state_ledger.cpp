#include "sim/state/state_ledger.h"

namespace holdfast::sim {

using ft::SnapshotId;
using ft::to_text;

void StateLedger::begin(const SnapshotId& id, std::uint32_t life) {
  const auto [at, fresh] = lives_.try_emplace(id, life);
  if (!fresh && at->second != life) {
    wrong(to_text(id) + " is taken in two lives of the training");
  }
}

void StateLedger::commit(const SnapshotId& id, const std::vector<ft::CodeGroup>& groups,
                         const std::vector<PartHolder>& keepers) {
  if (!is_known(id)) return wrong(to_text(id) + " is committed and was not taken");
  commits_ += committed_.try_emplace(id, LedgerEntry{groups, keepers}).second ? 1 : 0;
}

void StateLedger::flush(const SnapshotId& id, const std::vector<ft::CodeGroup>& groups,
                        const std::vector<PartHolder>& disks) {
  if (!is_known(id)) return wrong(to_text(id) + " is flushed and was not taken");
  flushes_ += flushed_.try_emplace(id, LedgerEntry{groups, disks}).second ? 1 : 0;
}

// Whether faults have left enough of it: of each group, at most m holders are gone or damaged.
bool StateLedger::stands(const SnapshotId& id, const LedgerEntry& entry,
                         const IsThere& is_there) const {
  for (const ft::CodeGroup& group : entry.groups) {
    int lost = 0;
    for (const int rank : group.ranks) {
      const PartHolder& holder = entry.holders.at(static_cast<std::size_t>(rank));
      lost += !is_there(holder) || damaged_.contains({id, holder}) ? 1 : 0;
    }
    if (lost > group.parity) return false;
  }
  return true;
}

void StateLedger::promise(std::uint32_t life, std::uint64_t before, const IsThere& is_there,
                          const std::string& who) {
  for (auto at = committed_.rbegin(); at != committed_.rend(); ++at) {
    const auto& [id, entry] = *at;
    if (id.step < before || life_of(id) != life) continue;
    for (const PartHolder& holder : entry.holders) {
      if (!is_there(holder)) return wrong(who + " is said to be safe though a keeper is lost");
    }
    return;
  }
  wrong(who + " is said to be safe though step " + std::to_string(before) + " is not committed");
}

void StateLedger::choose(const std::optional<SnapshotId>& chosen, const IsThere& keeper_reports,
                         const IsThere& disk_is_there, bool with_storage) {
  const std::string what = chosen ? to_text(*chosen) : "nothing";
  if (chosen && !is_known(*chosen)) return wrong(what + " is chosen and was never taken");
  const auto check = [&](const LedgerEntries& entries, const IsThere& is_there, const char* where) {
    for (auto at = entries.rbegin(); at != entries.rend(); ++at) {
      if (chosen && at->first <= *chosen) return;
      if (!stands(at->first, at->second, is_there)) continue;
      return wrong(what + " is chosen though " + to_text(at->first) + " is " + where);
    }
  };
  // Of what was committed only the newest is kept for sure.
  LedgerEntries newest;
  if (!committed_.empty()) newest.insert(*committed_.rbegin());
  check(newest, keeper_reports, "in memory");
  newest.clear();
  if (!flushed_.empty()) newest.insert(*flushed_.rbegin());
  if (with_storage) check(newest, disk_is_there, "in storage");
  if (!chosen) return;
  // Nobody goes on from what was newer.
  committed_.erase(committed_.upper_bound(*chosen), committed_.end());
  if (with_storage) flushed_.erase(flushed_.upper_bound(*chosen), flushed_.end());
}

void StateLedger::restore(const SnapshotId& id, const std::vector<SimTile>& tiles) {
  for (std::size_t shard = 0; shard < tiles.size(); ++shard) {
    if (tiles[shard] == true_tile(life_of(id), id.step, static_cast<int>(shard))) continue;
    return wrong("shard " + std::to_string(shard) + " is not restored as it was at " + to_text(id));
  }
}

}  // namespace holdfast::sim
