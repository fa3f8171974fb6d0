// What keepers do: captures, the ops of a snapshot, their lives.
#include <algorithm>
#include <chrono>

#include "sim/state/state_world.h"

namespace holdfast::sim {
namespace {

using ft::SnapshotDo;
using std::chrono::milliseconds;

// A stopped keeper is voted out of its group after so long.
constexpr Duration kVotedOut = milliseconds(500);

ft::SnapshotEvent event_of(const KeeperOp& op, SnapshotDo what) {
  const std::vector<int> missing(op.missing.begin(), op.missing.end());
  if (what == SnapshotDo::kTell) {
    ft::PartsGathered event{{}, missing};
    for (const auto& share : op.in) event.told.push_back(share ? share->told : ft::PartTold{});
    return event;
  }
  ft::ClosingEnded event{missing, true, false};
  for (const auto& share : op.in) {
    if (!share) continue;
    event.all_ok = event.all_ok && share->ok;
    event.flushing = event.flushing || share->flushing;
  }
  return event;
}

}  // namespace

void StateWorld::when_running(int seat, Action action) {
  SimKeeper& one = keeper(seat);
  if (!one.alive) return;
  if (one.stopped) return one.inbox.push_back(std::move(action));
  action();
}

void StateWorld::tell(int seat, const ft::SnapshotEvent& event) {
  SimKeeper& one = keeper(seat);
  if (!one.alive) return;
  one.kept = one.machine->committed();
  const auto actions = one.machine->step(event, now_);
  for (const ft::SnapshotAction& action : actions) carry_out(seat, action);
  const auto next = one.machine->next_at();
  if (!next) return;
  const std::uint32_t incarnation = one.incarnation;
  schedule(std::max(*next - now_, Duration::zero()), [this, seat, incarnation] {
    if (keeper(seat).incarnation != incarnation) return;
    when_running(seat, [this, seat] {
      const auto due = keeper(seat).machine->next_at();
      if (due && now_ >= *due) tell(seat, ft::TimePassed{});
    });
  });
}

void StateWorld::carry_out(int seat, const ft::SnapshotAction& action) {
  log(seat_text(seat) + ": " + ft::snapshot_do_name(action.what) + " " + to_text(action.id) +
      (action.ok ? "" : ", no") + (action.reason.empty() ? "" : ": " + action.reason));
  switch (action.what) {
    case SnapshotDo::kCapture: return capture(seat, action.slot, action.id);
    case SnapshotDo::kTell:
    case SnapshotDo::kCode:
    case SnapshotDo::kClose: return join(seat, action);
    case SnapshotDo::kReturn: return returned(seat, action.id.step, action.ok);
    case SnapshotDo::kFlush: return start_flush(seat, action.slot);
    case SnapshotDo::kCommitted:
      keeper(seat).kept = keeper(seat).machine->committed();
      return check_committed(seat, action.id);
    case SnapshotDo::kDropped:
    case SnapshotDo::kExposed:
    case SnapshotDo::kProtected: return;
  }
}

void StateWorld::capture(int seat, int slot, const ft::SnapshotId& id) {
  SimKeeper& one = keeper(seat);
  SimPart& part = one.slots.at(static_cast<std::size_t>(slot));
  const std::string who = seat_text(seat) + ": " + to_text(part.id);
  if (!part.is_empty() && one.kept == part.id) {
    ledger_.wrong(who + " is overwritten and was the newest committed");
  }
  const bool is_flushed = one.flush && one.flush->slot == slot;
  const bool is_restored = one.reads && restore_ && restore_->choice.id == part.id;
  if (is_flushed || is_restored) ledger_.wrong(who + " is overwritten while it is read");
  ledger_.begin(id, life_);
  part = {};
  part.id = id;
  part.rank = group_.rank_of(seat);
  for (const ft::CodeGroup& code : group_.codes) {
    if (std::find(code.ranks.begin(), code.ranks.end(), part.rank) == code.ranks.end()) continue;
    part.group = code.ranks;
    part.parity = code.parity;
    std::size_t most = 0;
    for (const int rank : code.ranks) {
      most = std::max(most, shards_of(rank, group_.size(), scenario_.shards).size());
    }
    const auto data = static_cast<std::size_t>(code.data());
    part.slice_tiles = (most + data - 1) / data;
  }
  happen(StateMoment::kCapturing);
  const std::uint32_t incarnation = one.incarnation;
  const int longest = static_cast<int>(scenario_.step / milliseconds(1)) * 4 / 5;
  schedule(drawn(0, longest),
           [this, seat, slot, id, incarnation] { captured(seat, slot, id, incarnation); });
}

void StateWorld::captured(int seat, int slot, const ft::SnapshotId& id, std::uint32_t incarnation) {
  SimKeeper& one = keeper(seat);
  if (!one.alive || one.incarnation != incarnation) return;
  const auto number = static_cast<std::size_t>(slot);
  const ft::SnapshotSlot& slot_now = one.machine->slots().at(number);
  if (slot_now.state != ft::SlotState::kFilling || slot_now.id != id) return;
  const bool is_there = training_ && trainer(seat).alive && trainer(seat).step == id.step &&
                        ledger_.life_of(id) == life_;
  const bool fails = random_.chance(scenario_.failing);
  if (!is_there || fails) {
    const std::string why = fails ? "model/w was changed meanwhile" : "the trainer went on";
    return when_running(seat, [this, seat, id, why] {
      tell(seat, ft::CaptureFailed{id.step, why});
    });
  }
  SimPart& part = one.slots[number];
  for (const int shard : shards_of(part.rank, group_.size(), scenario_.shards)) {
    part.body.push_back(true_tile(life_, id.step, shard));
  }
  part.table = part.body;
  part.has_body = true;
  const std::uint64_t hashes = table_hash(part.table);
  when_running(seat, [this, seat, id, hashes] { tell(seat, ft::BodyCaptured{id.step, hashes}); });
}

void StateWorld::join(int seat, const ft::SnapshotAction& action) {
  SimKeeper& one = keeper(seat);
  const int rank = group_.rank_of(seat);
  if (!one.grouped || rank < 0 || group_.lost.contains(rank)) return;
  const std::size_t number = one.next_op++;
  if (group_.ops.size() <= number) group_.ops.resize(number + 1);
  OpShare share{action.what, action.part, action.ok, action.flushing, {}, action.id};
  if (action.what == SnapshotDo::kCode) {
    // A bit that flips between its hash and its coding would be in everybody's parity, and must be
    // known to all who hold one: whoever saw it may be lost before the closing op.
    const auto slot = static_cast<std::size_t>(action.slot);
    const SimPart& part = one.slots.at(slot);
    const std::uint64_t told = one.machine->slots()[slot].parts.at(static_cast<std::size_t>(rank));
    share.ok = part.body == part.table && table_hash(part.table) == told;
    share.body = part.body;
    happen(StateMoment::kCoding);
  }
  if (group_.join(group_.ops[number], rank, std::move(share))) deliver(number);
}

void StateWorld::deliver(std::size_t number) {
  const KeeperOp& op = group_.ops[number];
  const std::string complaint = group_.complaint(op);
  if (!complaint.empty()) ledger_.wrong(complaint);
  const std::uint32_t epoch = group_.epoch;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (group_.lost.contains(rank)) continue;
    const int seat = group_.seats[static_cast<std::size_t>(rank)];
    schedule(drawn(1, 6), [this, seat, number, epoch] {
      if (group_.epoch != epoch) return;
      when_running(seat, [this, seat, number, epoch] {
        if (group_.epoch == epoch) receive(seat, number);
      });
    });
  }
  for (const auto& share : op.in) {
    if (!share || share->what != SnapshotDo::kClose) continue;
    return happen(StateMoment::kClosing);
  }
}

void StateWorld::receive(int seat, std::size_t number) {
  const int rank = group_.rank_of(seat);
  if (rank < 0 || group_.lost.contains(rank) || !keeper(seat).grouped) return;
  KeeperOp& op = group_.ops[number];
  op.told.insert(rank);
  const auto& mine = op.in[static_cast<std::size_t>(rank)];
  if (!mine) return;
  const SnapshotDo what = mine->what;
  if (what != SnapshotDo::kCode) return tell(seat, event_of(op, what));
  make_parity(seat, op);
  const std::vector<int> missing(op.missing.begin(), op.missing.end());
  std::string why;
  for (const auto& share : op.in) {
    if (share && !share->ok) why = "a body has other hashes than it was captured with";
  }
  tell(seat, ft::ParityMade{missing, why});
}

// Of everybody who is in the op, as it was told.
void StateWorld::make_parity(int seat, const KeeperOp& op) {
  const int rank = group_.rank_of(seat);
  const ft::SnapshotId id = op.in[static_cast<std::size_t>(rank)]->id;
  SimKeeper& one = keeper(seat);
  for (std::size_t slot = 0; slot < one.slots.size(); ++slot) {
    SimPart& part = one.slots[slot];
    if (part.id != id || !part.has_body) continue;
    part.parts = one.machine->slots()[slot].parts;
    part.rows.assign(static_cast<std::size_t>(part.parity), {});
    const ft::CodePlaces places = places_of(part);
    const auto self = std::find(part.group.begin(), part.group.end(), rank);
    const int member = static_cast<int>(self - part.group.begin());
    for (int row = 0; row < part.parity; ++row) {
      const int codeword = places.codeword_of_row(member, row);
      for (std::uint64_t offset = 0; offset < part.slice_tiles; ++offset) {
        SimParity tile;
        bool is_whole = true;
        for (int column = 0; column < places.data(); ++column) {
          const int other = places.member_of_column(codeword, column);
          const int from = part.group[static_cast<std::size_t>(other)];
          const auto& share = op.in[static_cast<std::size_t>(from)];
          is_whole = is_whole && share.has_value();
          if (!share) continue;
          const std::uint64_t at = static_cast<std::uint64_t>(column) * part.slice_tiles + offset;
          tile.columns.push_back(at < share->body.size() ? share->body[at] : SimTile{1});
        }
        // Where somebody is missing it is a parity of the others, whose hashes fit.
        if (!is_whole) tile.columns.clear();
        part.rows[static_cast<std::size_t>(row)].push_back(std::move(tile));
      }
    }
  }
}

// Whether the keeper has all of its part, and will say so.
bool StateWorld::has_whole(const PartHolder& holder, const ft::SnapshotId& id) {
  const SimKeeper& one = keeper(holder.place);
  const auto part = std::find_if(one.slots.begin(), one.slots.end(),
                                 [&](const SimPart& any) { return any.id == id; });
  if (part == one.slots.end() || !part->has_body) return false;
  if (part->rows.size() != static_cast<std::size_t>(part->parity)) return false;
  const auto number = static_cast<std::size_t>(part - one.slots.begin());
  if (one.machine->slots()[number].state < ft::SlotState::kCoded) return false;
  for (const auto& row : part->rows) {
    for (const SimParity& tile : row) {
      if (tile.columns.empty()) return false;
    }
  }
  return true;
}

// When the first one commits, all parts are in place. What was settled afterwards may lack some.
void StateWorld::check_committed(int seat, const ft::SnapshotId& id) {
  const KeeperGroup& made_by = past_.at(id.epoch);
  const bool is_settled = id.epoch != group_.epoch;
  verdict_.doubts += is_settled ? 1 : 0;
  const bool is_first = !ledger_.is_committed(id);
  ledger_.commit(id, made_by.codes, made_by.keepers);
  if (!is_first) return;
  for (const PartHolder& holder : made_by.keepers) {
    const SimKeeper& one = keeper(holder.place);
    const bool is_lost = !one.alive || one.incarnation != holder.incarnation;
    if (is_lost || has_whole(holder, id)) continue;
    if (is_settled) {
      ledger_.damage(id, holder);
      continue;
    }
    ledger_.wrong(seat_text(seat) + " commits " + to_text(id) + ", of which " +
                  seat_text(holder.place) + " has not all");
  }
}

void StateWorld::start_keeper(int seat) {
  SimKeeper& one = keeper(seat);
  const std::uint32_t incarnation = one.incarnation;
  const Instant lost_at = one.lost_at;
  one = {};
  one.incarnation = incarnation;
  one.lost_at = lost_at;
  one.machine.emplace(
      ft::GenerationOptions{scenario_.slots, scenario_.patience, scenario_.flush_every});
  one.slots.resize(static_cast<std::size_t>(scenario_.slots));
}

void StateWorld::kill_keeper(int seat) {
  SimKeeper& one = keeper(seat);
  if (!one.alive) return;
  log(seat_text(seat) + ": the keeper is killed");
  lose_member(seat);
  one.alive = one.stopped = one.grouped = one.reads = false;
  ++one.incarnation;
  one.lost_at = now_;
  one.machine.reset();
  one.slots.clear();
  one.inbox.clear();
  one.flush.reset();
  const std::uint32_t incarnation = one.incarnation;
  schedule(drawn(30, 150), [this, seat, incarnation] {
    const bool same = keeper(seat).incarnation == incarnation && !keeper(seat).alive;
    if (same && host(host_of(seat)).up) start_keeper(seat);
  });
}

void StateWorld::stop_keeper(int seat, Duration lasts) {
  SimKeeper& one = keeper(seat);
  log(seat_text(seat) + ": the keeper is stopped");
  one.stopped = true;
  const std::uint32_t incarnation = one.incarnation;
  schedule(lasts, [this, seat, incarnation] { resume_keeper(seat, incarnation); });
  if (lasts <= kVotedOut) return;
  schedule(kVotedOut, [this, seat, incarnation] {
    if (keeper(seat).incarnation == incarnation && keeper(seat).stopped) lose_member(seat);
  });
}

void StateWorld::resume_keeper(int seat, std::uint32_t incarnation) {
  SimKeeper& one = keeper(seat);
  if (one.incarnation != incarnation || !one.stopped) return;
  log(seat_text(seat) + ": the keeper goes on");
  one.stopped = false;
  one.resumed_at = now_;
  const int rank = group_.rank_of(seat);
  if (rank >= 0 && group_.lost.contains(rank)) tell(seat, ft::KeepersLost{{rank}});
  std::vector<Action> inbox;
  inbox.swap(one.inbox);
  for (Action& action : inbox) when_running(seat, std::move(action));
}

void StateWorld::lose_member(int seat) {
  const int rank = group_.rank_of(seat);
  if (rank < 0 || group_.lost.contains(rank)) return;
  const auto decided = group_.lose(rank, random_);
  for (const KeeperOp* op : decided) {
    for (std::size_t i = 0; i < group_.ops.size(); ++i) {
      if (&group_.ops[i] == op) deliver(i);
    }
    for (const auto& [id, flush] : group_.flushes) {
      if (&flush == op) deliver_flush(id);
    }
  }
  const std::uint32_t epoch = group_.epoch;
  for (const int other : group_.seats) {
    if (other == seat) continue;
    schedule(drawn(3, 40), [this, other, rank, epoch] {
      if (group_.epoch != epoch || !keeper(other).grouped) return;
      when_running(other, [this, other, rank, epoch] {
        if (group_.epoch == epoch) tell(other, ft::KeepersLost{{rank}});
      });
    });
  }
  plan_meeting(drawn(10, 60));
}

}  // namespace holdfast::sim
