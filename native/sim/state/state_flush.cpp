// Flushes: what FlushOrder says, done to simulated disks.
#include <algorithm>
#include <vector>

#include "sim/state/state_world.h"

namespace holdfast::sim {

using ft::FlushDo;

void StateWorld::start_flush(int seat, int slot) {
  SimKeeper& one = keeper(seat);
  const ft::SnapshotId id = one.slots.at(static_cast<std::size_t>(slot)).id;
  one.flush = SimFlush{ft::FlushOrder(id), slot, ++last_flush_};
  const std::uint32_t number = last_flush_;
  schedule(drawn(0, 3), [this, seat, number] { go_on_flushing(seat, number); });
}

void StateWorld::go_on_flushing(int seat, std::uint32_t number) {
  when_running(seat, [this, seat, number] {
    SimKeeper& one = keeper(seat);
    if (!one.flush || one.flush->number != number) return;
    if (one.flush->order.is_over()) return end_flush(seat);
    if (one.flush->order.what() == FlushDo::kAgree) return agree_flush(seat);
    happen(StateMoment::kFlushing);
    log(seat_text(seat) + ": " + flush_do_name(one.flush->order.what()) + " of " +
        to_text(one.flush->order.id()));
    one.flush->order.done(do_flush(seat, *one.flush));
    schedule(drawn(1, 12), [this, seat, number] { go_on_flushing(seat, number); });
  });
}

std::string StateWorld::do_flush(int seat, SimFlush& flush) {
  const SimPart& part = keeper(seat).slots.at(static_cast<std::size_t>(flush.slot));
  SimDisk& disk = disk_of(seat);
  const ft::SnapshotId id = flush.order.id();
  const FileName image{id, part.rank, false};
  const FileName manifest{id, part.rank, true};
  switch (flush.order.what()) {
    case FlushDo::kWriteFiles: return disk.write(image, part, random_) ? "" : "the disk is full";
    case FlushDo::kSyncFiles: disk.sync(image); return "";
    case FlushDo::kSyncFolder:
    case FlushDo::kSyncRename: disk.sync_names(); return "";
    // It has another name yet, under which nobody looks for it.
    case FlushDo::kWriteManifest: return disk.full ? "the disk is full" : "";
    case FlushDo::kSyncManifest: return "";
    case FlushDo::kRenameManifest:
      if (!disk.write(manifest, part, random_)) return "the disk is full";
      disk.sync(manifest);
      return "";
    case FlushDo::kVerify: return verify_files(seat, flush);
    case FlushDo::kRemoveOwn:
      disk.remove(manifest);
      disk.remove(image);
      return "";
    case FlushDo::kRemoveOlder: remove_files(seat, id); return "";
    case FlushDo::kAgree:
    case FlushDo::kDone:
    case FlushDo::kFailed: return "";
  }
  return "";
}

std::string StateWorld::verify_files(int seat, const SimFlush& flush) {
  const SimPart& part = keeper(seat).slots.at(static_cast<std::size_t>(flush.slot));
  const auto held = stored_part(seat, flush.order.id(), part.rank);
  if (!held) return "the manifest is not whole";
  const ft::PartReport report = held->report(seat, ft::PartPlace::kStorage, true);
  const bool is_agreed =
      report.hashes == report.parts.at(static_cast<std::size_t>(report.rank)) && report.has_body;
  const bool is_whole = report.damaged.empty() && report.damaged_rows.empty();
  return is_agreed && is_whole ? "" : "the files have other hashes";
}

// Of this host, manifests first.
void StateWorld::remove_files(int seat, const ft::SnapshotId& older_than) {
  std::vector<FileName> names;
  for (const auto& [name, file] : disk_of(seat).files()) {
    if (name.id < older_than) names.push_back(name);
  }
  std::stable_sort(names.begin(), names.end(),
                   [](const auto& a, const auto& b) { return a.is_manifest > b.is_manifest; });
  for (const FileName& name : names) disk_of(seat).remove(name);
}

void StateWorld::agree_flush(int seat) {
  SimKeeper& one = keeper(seat);
  const int rank = group_.rank_of(seat);
  if (!one.grouped || rank < 0 || group_.lost.contains(rank)) {
    one.flush->order.done("the keepers have changed");
    return end_flush(seat);
  }
  const ft::SnapshotId id = one.flush->order.id();
  const OpShare share{ft::SnapshotDo::kFlush, {}, one.flush->order.is_well(), false, {}, id};
  if (group_.join(group_.flushes[id], rank, share)) deliver_flush(id);
}

void StateWorld::deliver_flush(const ft::SnapshotId& id) {
  const KeeperOp& op = group_.flushes.at(id);
  bool is_well = op.missing.empty();
  for (const auto& share : op.in) is_well = is_well && share && share->ok;
  if (is_well) {
    std::vector<PartHolder> disks;
    for (const PartHolder& holder : past_.at(id.epoch).keepers) {
      const bool is_same = keeper(holder.place).incarnation == holder.incarnation;
      disks.push_back(is_same ? disk_holder(holder.place) : PartHolder{-1, 0});
    }
    ledger_.flush(id, past_.at(id.epoch).codes, disks);
    log(to_text(id) + " is flushed");
  }
  const std::uint32_t epoch = group_.epoch;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (group_.lost.contains(rank)) continue;
    const int seat = group_.seats[static_cast<std::size_t>(rank)];
    schedule(drawn(1, 5), [this, seat, rank, id, epoch, is_well] {
      when_running(seat, [this, seat, rank, id, epoch, is_well] {
        SimKeeper& one = keeper(seat);
        if (group_.epoch != epoch || !one.flush || one.flush->order.id() != id) return;
        if (one.flush->order.what() != FlushDo::kAgree) return;
        group_.flushes.at(id).told.insert(rank);
        one.flush->order.done(is_well ? "" : "not all hosts' files verify");
        go_on_flushing(seat, one.flush->number);
      });
    });
  }
}

void StateWorld::end_flush(int seat) {
  SimKeeper& one = keeper(seat);
  const ft::FlushEnded ended{one.flush->order.id(), one.flush->order.why()};
  one.flush.reset();
  log(seat_text(seat) + ": the flush has ended" + (ended.why.empty() ? "" : ": " + ended.why));
  tell(seat, ended);
}

}  // namespace holdfast::sim
