#include "sim/state/sim_part.h"

#include <algorithm>

#include "ft/digest.h"

namespace holdfast::sim {

SimTile true_tile(std::uint32_t life, std::uint64_t step, int shard) {
  ft::Digest digest;
  digest.mix(life);
  digest.mix(step);
  digest.mix(static_cast<std::uint64_t>(shard));
  return digest.value();
}

std::vector<int> shards_of(int rank, int ranks, int shards) {
  std::vector<int> mine;
  for (int shard = rank * shards / ranks; shard < (rank + 1) * shards / ranks; ++shard) {
    mine.push_back(shard);
  }
  return mine;
}

std::uint64_t table_hash(const std::vector<SimTile>& table) {
  ft::Digest digest;
  digest.mix(table.size());
  for (const SimTile tile : table) digest.mix(tile);
  return digest.value();
}

ft::PartReport SimPart::report(int holder, ft::PartPlace place, bool committed) const {
  ft::PartReport one;
  one.holder = holder;
  one.place = place;
  one.id = id;
  one.committed = committed;
  one.rank = rank;
  one.group = group;
  one.parity = parity;
  one.slice_tiles = slice_tiles;
  one.parts = parts;
  one.has_body = has_body;
  one.hashes = table_hash(table);
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (i >= body.size() || body[i] != table[i]) one.damaged.push_back(i);
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    one.rows.push_back(!rows[row].empty() || slice_tiles == 0);
    for (std::size_t at = 0; at < rows[row].size(); ++at) {
      if (rows[row][at].flipped) one.damaged_rows.emplace_back(static_cast<int>(row), at);
    }
  }
  return one;
}

std::optional<SimTile> decode_tile(const std::vector<const SimPart*>& seats,
                                   const ft::CodePlaces& places, std::uint64_t slice_tiles,
                                   int seat, std::uint64_t tile) {
  const int column = static_cast<int>(tile / slice_tiles);
  const std::uint64_t offset = tile % slice_tiles;
  const int codeword = places.codeword_of_slice(seat, column);
  std::vector<std::optional<SimTile>> data;
  std::size_t lost = 0;
  for (int i = 0; i < places.data(); ++i) {
    const int member = places.member_of_column(codeword, i);
    const SimPart* part = seats[static_cast<std::size_t>(member)];
    const std::uint64_t at = static_cast<std::uint64_t>(i) * slice_tiles + offset;
    std::optional<SimTile>& one = data.emplace_back();
    if (part != nullptr && part->has_body && member != seat) {
      const bool is_padding = at >= part->table.size();
      const bool is_well = is_padding || part->body.at(at) == part->table[at];
      if (is_well) one = is_padding ? SimTile{1} : part->body[at];
    }
    lost += one ? 0 : 1;
  }
  std::vector<const SimParity*> used;
  for (int row = 0; row < places.parity() && used.size() < lost; ++row) {
    const SimPart* part = seats[static_cast<std::size_t>(places.member_of_row(codeword, row))];
    if (part == nullptr || part->rows.size() <= static_cast<std::size_t>(row)) continue;
    const auto& tiles = part->rows[static_cast<std::size_t>(row)];
    if (offset < tiles.size() && !tiles[offset].flipped) used.push_back(&tiles[offset]);
  }
  if (used.size() < lost) return std::nullopt;
  const auto& made_of = used.front()->columns;
  for (const SimParity* row : used) {
    bool fits = row->columns == made_of && !row->columns.empty();
    for (std::size_t i = 0; fits && i < data.size(); ++i) {
      fits = !data[i] || *data[i] == row->columns[i];
    }
    if (!fits) return kTorn;
  }
  return made_of[static_cast<std::size_t>(column)];
}

}  // namespace holdfast::sim
