#include "ft/snapshots/group_parts.h"

#include <algorithm>

namespace holdfast::ft {

GroupShare::GroupShare(const PartReport& first)
    : ranks_(first.group),
      places_(static_cast<int>(first.group.size()) - first.parity, first.parity),
      slice_tiles_(std::max<std::uint64_t>(first.slice_tiles, 1)),
      seats_(first.group.size()) {}

void GroupShare::add(const PartReport& part) {
  const bool same = part.group == ranks_ && part.parity == places_.parity();
  const auto seat = std::find(ranks_.begin(), ranks_.end(), part.rank);
  if (!same || seat == ranks_.end()) return;
  seats_[static_cast<std::size_t>(seat - ranks_.begin())].push_back(&part);
}

bool GroupShare::has_tile(std::size_t seat, std::uint64_t tile, PartPlace most) const {
  return std::any_of(seats_[seat].begin(), seats_[seat].end(), [&](const PartReport* part) {
    const auto& bad = part->damaged;
    return part->place <= most && part->has_body &&
           std::find(bad.begin(), bad.end(), tile) == bad.end();
  });
}

bool GroupShare::has_row(std::size_t seat, int row, std::optional<std::uint64_t> tile,
                         PartPlace most) const {
  return std::any_of(seats_[seat].begin(), seats_[seat].end(), [&](const PartReport* part) {
    const auto number = static_cast<std::size_t>(row);
    if (part->place > most || number >= part->rows.size() || !part->rows[number]) return false;
    const auto& bad = part->damaged_rows;
    return !tile || std::find(bad.begin(), bad.end(), std::pair{row, *tile}) == bad.end();
  });
}

// The body with the fewest damaged tiles, of the nearest place.
const PartReport* GroupShare::body_of(std::size_t seat, PartPlace most) const {
  const PartReport* best = nullptr;
  for (const PartReport* part : seats_[seat]) {
    if (part->place > most || !part->has_body) continue;
    if (best == nullptr || part->damaged.size() < best->damaged.size()) best = part;
  }
  return best;
}

// Where in a slice something is damaged.
GroupShare::Offsets GroupShare::offsets() const {
  Offsets all;
  for (const auto& seat : seats_) {
    for (const PartReport* part : seat) {
      for (const std::uint64_t tile : part->damaged) all.insert(tile % slice_tiles_);
      for (const auto& [row, tile] : part->damaged_rows) all.insert(tile);
    }
  }
  return all;
}

std::pair<int, int> GroupShare::lost(int codeword, std::optional<std::uint64_t> offset,
                                     PartPlace most) const {
  int data = 0;
  int rows = 0;
  for (std::size_t seat = 0; seat < seats_.size(); ++seat) {
    const CodePlace place = places_.place(static_cast<int>(seat), codeword);
    if (place.is_parity) {
      rows += has_row(seat, place.index, offset, most) ? 0 : 1;
    } else if (offset) {
      const auto tile = static_cast<std::uint64_t>(place.index) * slice_tiles_ + *offset;
      data += has_tile(seat, tile, most) ? 0 : 1;
    } else {
      data += body_of(seat, most) != nullptr ? 0 : 1;
    }
  }
  return {data, rows};
}

std::string GroupShare::lacks(PartPlace most) const {
  const int parts = places_.members();
  const auto complaint = [&](int codeword, std::optional<std::uint64_t> offset) -> std::string {
    const auto [data, rows] = lost(codeword, offset, most);
    if (data == 0 || data + rows <= places_.parity()) return "";
    std::string group;
    for (const int rank : ranks_) group += (group.empty() ? "" : ", ") + std::to_string(rank);
    return "of ranks " + group + ", " + std::to_string(parts - data - rows) + " of " +
           std::to_string(parts) + " parts are whole, and " + std::to_string(places_.data()) +
           " are needed";
  };
  const Offsets damaged = offsets();
  for (int codeword = 0; codeword < parts; ++codeword) {
    std::string found = complaint(codeword, std::nullopt);
    for (auto at = damaged.begin(); found.empty() && at != damaged.end(); ++at) {
      found = complaint(codeword, *at);
    }
    if (!found.empty()) return found;
  }
  return "";
}

RankSource GroupShare::source(std::size_t seat, PartPlace most) const {
  RankSource from;
  from.rank = ranks_[seat];
  const PartReport* body = body_of(seat, most);
  from.kind = body == nullptr                     ? SourceKind::kDecode
              : body->place == PartPlace::kMemory ? SourceKind::kKeeper
                                                  : SourceKind::kStorage;
  if (body != nullptr) {
    from.holder = body->holder;
    from.repair = body->damaged;
    if (from.repair.empty()) return from;
  }
  for (const auto& parts : seats_) {
    for (const PartReport* part : parts) {
      if (part == body || part->place > most) continue;
      from.givers.push_back({part->rank, part->holder, part->place});
    }
  }
  return from;
}

}  // namespace holdfast::ft
