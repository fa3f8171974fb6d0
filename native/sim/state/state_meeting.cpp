// Meetings: keepers begin anew after a loss, by what all report; where the training has stopped,
// with what the choice finds for it.
#include <algorithm>
#include <chrono>

#include "sim/state/state_world.h"

namespace holdfast::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A restore waits so long for a keeper that is stopped, which is then replaced.
constexpr Duration kRestorePatience = seconds(2);

}  // namespace

void StateWorld::plan_meeting(Duration in) {
  if (meeting_planned_) return;
  meeting_planned_ = true;
  meeting_since_ = now_;
  schedule(in, [this] { meet(); });
}

// Hosts that will not come back leave the world, if the code still fits.
void StateWorld::replace_lost() {
  std::vector<int> rest;
  for (const int seat : world_) {
    if (host(host_of(seat)).up || host(host_of(seat)).returns) rest.push_back(seat);
  }
  const int left = static_cast<int>(rest.size()) / scenario_.per_host;
  if (left > scenario_.parity) {
    world_ = rest;
    return;
  }
  for (int number = 0; number < scenario_.hosts; ++number) {
    if (!host(number).up && !host(number).returns) return_host(number);
  }
}

bool StateWorld::is_everybody_there() {
  bool all = true;
  for (const int seat : world_) {
    const bool is_stuck =
        !training_ && keeper(seat).stopped && now_ - meeting_since_ > kRestorePatience;
    if (is_stuck) kill_keeper(seat);
    all = all && host(host_of(seat)).up && is_running(seat) && (training_ || trainer(seat).alive);
  }
  return all;
}

void StateWorld::meet() {
  if (!training_) replace_lost();
  if (!is_everybody_there()) {
    schedule(drawn(10, 30), [this] { meet(); });
    return;
  }
  meeting_planned_ = false;
  stop_reading();
  const std::vector<int> lost(group_.lost.begin(), group_.lost.end());
  // From here on nobody overwrites what it reports.
  for (const int seat : world_) tell(seat, ft::KeepersLost{lost});
  ft::RestoreReports all = reports(true, !training_);
  // What the keepers settle on is a snapshot, also where the living need none.
  auto chosen = ft::choose_snapshot(all);
  std::optional<ft::SnapshotId> settled;
  if (chosen.is_ok() && !chosen.value().fresh) settled = chosen.value().id;
  check_choice(settled);
  if (!training_ && scenario_.replicas) {
    all.live = live_reports();
    chosen = ft::choose_snapshot(all);
    for (const ft::LiveReport& one : all.live) {
      ledger_.begin(one.id, life_);
      const bool goes_back = !chosen.is_ok() || chosen.value().id < one.id;
      if (goes_back) ledger_.wrong(seat_text(one.holder) + " lives, and all go back");
    }
  }
  if (!chosen.is_ok() && !training_) {
    log("all are told: " + chosen.status().message());
    verdict_.given_up = chosen.status().message();
    over_ = true;
    return;
  }
  log("all go on: " + (chosen.is_ok() ? chosen.value().reason : chosen.status().message()));
  begin_group(settled);
  if (training_) return;
  restore_ = RestoreRun{chosen.value(), {}};
  const std::uint32_t epoch = group_.epoch;
  schedule(drawn(10, 20), [this, epoch] { start_restore(epoch); });
}

void StateWorld::check_choice(const std::optional<ft::SnapshotId>& settled) {
  const auto keeper_reports = [this](const PartHolder& holder) {
    const bool meets = std::find(world_.begin(), world_.end(), holder.place) != world_.end();
    return meets && keeper(holder.place).incarnation == holder.incarnation;
  };
  const auto disk_is_there = [this](const PartHolder& disk) {
    if (disk.place < 0 || host(disk.place).disk_incarnation != disk.incarnation) return false;
    return scenario_.shared || is_in_world(disk.place);
  };
  ledger_.choose(settled, keeper_reports, disk_is_there, !training_);
}

// Trainers that stand at a step boundary, with the state of all.
std::vector<ft::LiveReport> StateWorld::live_reports() {
  std::vector<ft::LiveReport> live;
  for (const int seat : world_) {
    if (!trainer(seat).alive || !trainer(seat).has_state) continue;
    ft::LiveReport& one = live.emplace_back();
    one.holder = seat;
    one.id = {group_.epoch, trainer(seat).step};
    one.ranks = group_.size();
    for (int rank = 0; rank < one.ranks; ++rank) one.covers.push_back(rank);
  }
  return live;
}

bool StateWorld::is_in_world(int number) const {
  return std::any_of(world_.begin(), world_.end(),
                     [&](int seat) { return host_of(seat) == number; });
}

void StateWorld::begin_group(const std::optional<ft::SnapshotId>& settled) {
  KeeperGroup next;
  next.epoch = group_.epoch + 1;
  next.seats = world_;
  std::vector<std::string> domains;
  for (const int seat : world_) {
    next.keepers.push_back(holder_of(seat));
    domains.push_back("host" + std::to_string(host_of(seat)));
    keeper(seat).grouped = false;
  }
  const int hosts = static_cast<int>(world_.size()) / scenario_.per_host;
  const auto code = ft::code_for_hosts(hosts, {scenario_.data, scenario_.parity});
  next.codes = ft::code_groups(domains, code.value()).value().groups;
  group_ = std::move(next);
  past_[group_.epoch] = group_;
  std::optional<ft::SnapshotId> flushed;
  const auto stored = ft::choose_snapshot(reports(false, true));
  if (stored.is_ok() && !stored.value().fresh) flushed = stored.value().id;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const int seat = world_[static_cast<std::size_t>(rank)];
    const ft::KeepersBegun begun{group_.epoch, rank, group_.size(), settled, flushed};
    const std::uint32_t incarnation = keeper(seat).incarnation;
    schedule(drawn(1, 5), [this, seat, begun, incarnation] {
      when_running(seat, [this, seat, begun, incarnation] {
        SimKeeper& one = keeper(seat);
        if (group_.epoch != begun.epoch || one.incarnation != incarnation) return;
        one.grouped = true;
        one.next_op = 0;
        if (one.flush && one.flush->order.what() == ft::FlushDo::kAgree) {
          one.flush->order.done("the keepers have begun anew");
          end_flush(seat);
        }
        tell(seat, begun);
      });
    });
  }
}

ft::RestoreReports StateWorld::reports(bool memory, bool storage) {
  ft::RestoreReports all;
  for (const int seat : world_) {
    all.reached = std::max(all.reached, trainer(seat).step);
    if (!memory) continue;
    const auto& slots = keeper(seat).machine->slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const bool is_complete =
          slots[i].state == ft::SlotState::kDoubt || slots[i].state == ft::SlotState::kCommitted;
      const bool is_same = keeper(seat).slots[i].id == slots[i].id;
      if (!is_complete || !is_same) continue;
      const bool committed = slots[i].state == ft::SlotState::kCommitted;
      all.parts.push_back(keeper(seat).slots[i].report(seat, ft::PartPlace::kMemory, committed));
    }
  }
  for (int number = 0; storage && number < scenario_.hosts; ++number) {
    const bool is_read = scenario_.shared ? number == 0 : host(number).up && is_in_world(number);
    if (!is_read) continue;
    const int seat = number * scenario_.per_host;
    for (const auto& [name, file] : host(number).disk.files()) {
      if (!name.is_manifest) continue;
      const auto part = stored_part(seat, name.id, name.rank);
      if (part) all.parts.push_back(part->report(seat, ft::PartPlace::kStorage, true));
    }
  }
  return all;
}

// What the manifest names, as it is: its hashes are the manifest's.
std::optional<SimPart> StateWorld::stored_part(int seat, const ft::SnapshotId& id, int rank) {
  SimFile* manifest = disk_of(seat).find({id, rank, true});
  if (manifest == nullptr || !manifest->whole) return std::nullopt;
  SimPart part = manifest->part;
  const SimFile* image = disk_of(seat).find({id, rank, false});
  part.has_body = image != nullptr;
  part.body = image != nullptr ? image->part.body : std::vector<SimTile>{};
  part.rows = image != nullptr ? image->part.rows : std::vector<std::vector<SimParity>>{};
  return part;
}

}  // namespace holdfast::sim
