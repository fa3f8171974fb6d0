// Restores: every rank's part comes from where the choice says, and is compared with the agreed
// hashes; whatever is lost meanwhile begins it anew.
#include <algorithm>

#include "base/planted.h"
#include "sim/state/state_world.h"

namespace holdfast::sim {

void StateWorld::start_restore(std::uint32_t epoch) {
  if (!restore_ || group_.epoch != epoch || meeting_planned_) return;
  for (const int seat : world_) {
    if (keeper(seat).grouped) continue;
    schedule(drawn(5, 10), [this, epoch] { start_restore(epoch); });
    return;
  }
  if (restore_->choice.fresh) return end_restore();
  for (const int seat : world_) {
    keeper(seat).reads = true;
    when_running(seat, [this, seat] { tell(seat, ft::RestoreBegun{restore_->choice.id}); });
  }
  happen(StateMoment::kRestoring);
  for (std::size_t rank = 0; rank < restore_->choice.sources.size(); ++rank) {
    schedule(drawn(5, 60), [this, epoch, rank] { restore_rank(epoch, rank); });
  }
}

void StateWorld::restore_rank(std::uint32_t epoch, std::size_t rank) {
  if (!restore_ || group_.epoch != epoch || meeting_planned_) return;
  const ft::RestoreChoice& choice = restore_->choice;
  const ft::RankSource& source = choice.sources[rank];
  auto body = fetch(source);
  const bool is_live = source.kind == ft::SourceKind::kLive;
  const bool is_agreed = body && (is_live || table_hash(*body) == choice.parts[rank]);
  const bool is_planted_trust = is_planted(Planted::kAnyHashes) || is_planted(Planted::kMixSteps);
  const bool is_right = is_agreed || (body && is_planted_trust);
  log("restores rank " + std::to_string(rank) + " by " + source_kind_name(source.kind) +
      (is_right ? "" : ", in vain"));
  if (body && !is_agreed && source.kind == ft::SourceKind::kDecode) {
    ledger_.wrong("S3: parts that verify decode to other bytes");
  }
  if (!is_right) {
    restore_.reset();
    return plan_meeting(drawn(5, 20));
  }
  verdict_.decoded += source.kind == ft::SourceKind::kDecode ? 1 : 0;
  verdict_.stored += source.kind == ft::SourceKind::kStorage ? 1 : 0;
  restore_->bodies[static_cast<int>(rank)] = std::move(*body);
  if (restore_->bodies.size() == choice.sources.size()) end_restore();
}

std::optional<SimPart> StateWorld::held_part(const ft::SnapshotId& id, int rank, int holder,
                                             ft::PartPlace place) {
  if (place == ft::PartPlace::kStorage) {
    if (!scenario_.shared && !host(host_of(holder)).up) return std::nullopt;
    return stored_part(holder, id, rank);
  }
  if (!is_running(holder)) return std::nullopt;
  const auto& slots = keeper(holder).machine->slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const SimPart& part = keeper(holder).slots[i];
    if (part.id != id || part.rank != rank || slots[i].id != id) continue;
    if (slots[i].state == ft::SlotState::kCommitted) return part;
  }
  return std::nullopt;
}

// Whoever lives is not beyond the step, since nobody trains meanwhile.
std::optional<std::vector<SimTile>> StateWorld::live_body(const ft::RankSource& source) {
  const SimTrainer& from = trainer(source.holder);
  if (!from.alive || !from.has_state || from.step != source.id.step) return std::nullopt;
  const int ranks = static_cast<int>(restore_->choice.sources.size());
  std::vector<SimTile> body;
  for (const int shard : shards_of(source.rank, ranks, scenario_.shards)) {
    body.push_back(true_tile(life_, from.step, shard));
  }
  return body;
}

std::optional<std::vector<SimTile>> StateWorld::fetch(const ft::RankSource& source) {
  if (source.kind == ft::SourceKind::kLive) return live_body(source);
  const auto& agreed = restore_->choice.parts;
  const auto place =
      source.kind == ft::SourceKind::kStorage ? ft::PartPlace::kStorage : ft::PartPlace::kMemory;
  std::vector<SimTile> body;
  std::vector<std::uint64_t> wanted = source.repair;
  if (source.kind != ft::SourceKind::kDecode) {
    const auto own = held_part(source.id, source.rank, source.holder, place);
    if (!own || !own->has_body) return std::nullopt;
    body = own->body;
    if (wanted.empty()) return body;
  } else {
    const int ranks = static_cast<int>(agreed.size());
    body.resize(shards_of(source.rank, ranks, scenario_.shards).size());
    for (std::uint64_t tile = 0; tile < body.size(); ++tile) wanted.push_back(tile);
  }
  // One part a seat; what is nearer was named first.
  std::map<int, SimPart> parts;
  for (const ft::PartGiver& giver : source.givers) {
    auto part = held_part(source.id, giver.rank, giver.holder, giver.place);
    if (!part) continue;
    const bool is_agreed =
        table_hash(part->table) == agreed.at(static_cast<std::size_t>(giver.rank));
    if (!is_agreed && !is_planted(Planted::kAnyHashes)) part->has_body = false;
    add_part(parts, std::move(*part));
  }
  if (parts.empty()) return body.empty() ? std::optional(body) : std::nullopt;
  const SimPart& first = parts.begin()->second;
  const ft::CodePlaces places = places_of(first);
  std::vector<const SimPart*> seats;
  int seat = 0;
  for (std::size_t i = 0; i < first.group.size(); ++i) {
    const auto at = parts.find(first.group[i]);
    seats.push_back(at == parts.end() ? nullptr : &at->second);
    if (first.group[i] == source.rank) seat = static_cast<int>(i);
  }
  for (const std::uint64_t tile : wanted) {
    const auto decoded = decode_tile(seats, places, first.slice_tiles, seat, tile);
    if (!decoded || tile >= body.size()) return std::nullopt;
    body[tile] = *decoded;
  }
  return body;
}

// What memory and storage have of one rank, tile by tile.
void StateWorld::add_part(std::map<int, SimPart>& parts, SimPart part) {
  const auto [at, fresh] = parts.try_emplace(part.rank, part);
  if (fresh) return;
  SimPart& known = at->second;
  if (!known.has_body && part.has_body) {
    known.body = part.body;
    known.table = part.table;
  }
  for (std::size_t i = 0; part.has_body && i < known.table.size(); ++i) {
    if (i < part.body.size() && known.body.at(i) != known.table[i]) known.body[i] = part.body[i];
  }
  known.has_body = known.has_body || part.has_body;
  if (known.rows.size() < part.rows.size()) known.rows.resize(part.rows.size());
  for (std::size_t row = 0; row < part.rows.size(); ++row) {
    if (known.rows[row].empty()) known.rows[row] = part.rows[row];
    for (std::size_t i = 0; i < part.rows[row].size(); ++i) {
      if (known.rows[row][i].flipped) known.rows[row][i] = part.rows[row][i];
    }
  }
}

void StateWorld::end_restore() {
  const bool all_live =
      std::all_of(world_.begin(), world_.end(), [&](int seat) { return trainer(seat).alive; });
  if (!all_live) {
    restore_.reset();
    return plan_meeting(drawn(5, 20));
  }
  const ft::RestoreChoice choice = restore_->choice;
  if (!choice.fresh) {
    const int ranks = static_cast<int>(choice.sources.size());
    std::vector<SimTile> tiles(static_cast<std::size_t>(scenario_.shards), kTorn);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto mine = shards_of(rank, ranks, scenario_.shards);
      const auto& body = restore_->bodies[rank];
      for (std::size_t i = 0; i < mine.size() && i < body.size(); ++i) {
        tiles[static_cast<std::size_t>(mine[i])] = body[i];
      }
    }
    ledger_.restore(choice.id, tiles);
    ++verdict_.restores;
  }
  stop_reading();
  ++life_;
  training_ = true;
  log("training goes on after step " + std::to_string(choice.id.step));
  for (const int seat : world_) {
    SimTrainer& one = trainer(seat);
    one.step = one.taken = choice.id.step;
    one.taking = one.entered = false;
    one.has_state = true;
  }
  if (choice.id.step >= scenario_.steps) return;
  for (const int seat : world_) enter(seat);
}

void StateWorld::stop_reading() {
  if (restore_) {
    for (const int seat : world_) {
      if (!keeper(seat).reads) continue;
      keeper(seat).reads = false;
      const ft::SnapshotId id = restore_->choice.id;
      when_running(seat, [this, seat, id] { tell(seat, ft::RestoreEnded{id}); });
    }
  }
  restore_.reset();
}

}  // namespace holdfast::sim
