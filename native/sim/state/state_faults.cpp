// What goes wrong in a simulated job.
#include <algorithm>
#include <chrono>

#include "sim/state/state_world.h"

namespace holdfast::sim {

using std::chrono::milliseconds;

// Faults that have waited for this moment come in the middle of it.
void StateWorld::happen(StateMoment moment) {
  for (PendingFault& one : faults_) {
    if (!one.due || one.fault.moment != moment) continue;
    one.due = false;
    healed_ = std::max(healed_, now_ + one.fault.lasts + milliseconds(10));
    const StateFault fault = one.fault;
    schedule(drawn(0, 8), [this, fault] { verdict_.faults += strike(fault) ? 1 : 0; });
  }
}

bool StateWorld::strike(const StateFault& fault) {
  const int seat = world_[static_cast<std::size_t>(fault.place) % world_.size()];
  const int number = host_of(seat);
  log("fault: " + state_fault_name(fault.kind) + " at " + seat_text(seat));
  const bool had_trainer = trainer(seat).alive;
  const bool had_keeper = keeper(seat).alive;
  switch (fault.kind) {
    case StateFaultKind::kKillTrainer: kill_trainer(seat); return had_trainer;
    case StateFaultKind::kKillKeeper: kill_keeper(seat); return had_keeper;
    case StateFaultKind::kLoseHost: return lose_hosts(number, 1, fault.returns);
    case StateFaultKind::kLoseMost: return lose_hosts(number, scenario_.parity, fault.returns);
    case StateFaultKind::kLoseMore: return lose_hosts(number, scenario_.parity + 1, fault.returns);
    case StateFaultKind::kKillTrainers:
      for (const int other : world_) kill_trainer(other);
      return true;
    case StateFaultKind::kKillAll:
    case StateFaultKind::kPowerOff:
      for (const int other : world_) {
        kill_trainer(other);
        kill_keeper(other);
      }
      for (SimHost& host : hosts_) {
        if (fault.kind == StateFaultKind::kPowerOff) host.disk.lose_power(random_);
      }
      return true;
    case StateFaultKind::kDiskFull: {
      SimDisk& disk = disk_of(seat);
      disk.full = true;
      schedule(fault.lasts, [&disk] { disk.full = false; });
      return true;
    }
    case StateFaultKind::kStopKeeper:
      if (!is_running(seat)) return false;
      stop_keeper(seat, fault.lasts);
      return true;
    case StateFaultKind::kFlipMemory:
    case StateFaultKind::kScribble: return flip(seat, fault.kind == StateFaultKind::kScribble);
    case StateFaultKind::kFlipFile:
    case StateFaultKind::kSwapFile: return flip_file(seat, fault.kind == StateFaultKind::kSwapFile);
  }
  return false;
}

bool StateWorld::lose_hosts(int first, int count, bool returns) {
  bool any = false;
  for (int i = 0; i < count && i < scenario_.hosts; ++i) {
    const int number = (first + i) % scenario_.hosts;
    if (!host(number).up || !is_in_world(number)) continue;
    lose_host(number, returns);
    any = true;
  }
  return any;
}

void StateWorld::lose_host(int number, bool returns) {
  log("host " + std::to_string(number) + " is lost" + (returns ? "" : " for good"));
  SimHost& one = host(number);
  one.up = false;
  one.returns = returns;
  for (int i = 0; i < scenario_.per_host; ++i) {
    kill_trainer(number * scenario_.per_host + i);
    kill_keeper(number * scenario_.per_host + i);
  }
  if (!scenario_.shared) {
    one.disk = {};
    ++one.disk_incarnation;
  }
  if (returns) return_host(number);
}

// Another one comes in its place, with nothing on its disk.
void StateWorld::return_host(int number) {
  host(number).returns = true;
  schedule(drawn(100, 500), [this, number] {
    if (host(number).up) return;
    host(number).up = true;
    for (int i = 0; i < scenario_.per_host; ++i) {
      const int seat = number * scenario_.per_host + i;
      if (!keeper(seat).alive) start_keeper(seat);
      trainer(seat).alive = true;
    }
  });
}

bool StateWorld::flip(int seat, bool with_hash) {
  SimKeeper& one = keeper(seat);
  if (!one.alive) return false;
  SimPart& part = one.slots[random_.below(one.slots.size())];
  const bool in_parity = !with_hash && !part.rows.empty() && random_.chance(50);
  if (in_parity) {
    auto& row = part.rows[random_.below(part.rows.size())];
    if (row.empty()) return false;
    row[random_.below(row.size())].flipped = true;
  } else {
    if (!part.has_body || part.body.empty()) return false;
    const std::size_t at = random_.below(part.body.size());
    part.body[at] ^= 2;
    if (with_hash) part.table[at] ^= 2;
  }
  ledger_.damage(part.id, holder_of(seat));
  return true;
}

bool StateWorld::flip_file(int seat, bool is_other) {
  SimDisk& disk = disk_of(seat);
  if (disk.files().empty()) return false;
  auto at = disk.files().begin();
  std::advance(at, random_.below(disk.files().size()));
  const FileName name = at->first;
  SimFile& file = *disk.find(name);
  ledger_.damage(name.id, disk_holder(seat));
  if (name.is_manifest && !is_other) {
    file.whole = false;
    return true;
  }
  SimFile* image = disk.find({name.id, name.rank, false});
  if (image == nullptr || image->part.body.empty()) return true;
  const std::size_t tile = random_.below(image->part.body.size());
  image->part.body[tile] ^= 2;
  // Another job's file, with its manifest: they fit each other.
  SimFile* manifest = disk.find({name.id, name.rank, true});
  if (is_other && manifest != nullptr) manifest->part.table.at(tile) = image->part.body[tile];
  return true;
}

}  // namespace holdfast::sim
