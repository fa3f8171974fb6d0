// Simulated part: what a keeper's slot or a file has of one rank's snapshot. A tile is one number,
// a parity tile the list of what went into it: it gives a lost column back if all that is taken
// with it is what it was made of, and rubbish else, as Galois arithmetic would.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ft/snapshots/choice.h"
#include "ft/snapshots/code_places.h"
#include "ft/snapshots/snapshot_id.h"

namespace holdfast::sim {

using SimTile = std::uint64_t;
inline constexpr SimTile kTorn = 0;

// The right bytes of a shard of the global state: in each life of the training others.
SimTile true_tile(std::uint32_t life, std::uint64_t step, int shard);
// Which shards a rank of a world has.
std::vector<int> shards_of(int rank, int ranks, int shards);
std::uint64_t table_hash(const std::vector<SimTile>& table);

struct SimParity {
  std::vector<SimTile> columns;  // what it was made of; empty where somebody's data is missing
  bool flipped = false;
};

struct SimPart {
  ft::SnapshotId id;
  int rank = 0;
  std::vector<int> group;
  int parity = 0;
  std::uint64_t slice_tiles = 0;
  std::vector<std::uint64_t> parts;  // agreed hashes
  bool has_body = false;
  std::vector<SimTile> body;
  std::vector<SimTile> table;                // a hash per tile: the tile as it was captured
  std::vector<std::vector<SimParity>> rows;  // [row][offset]

  bool is_empty() const { return !has_body && rows.empty(); }
  ft::PartReport report(int holder, ft::PartPlace place, bool committed) const;
};

// What the parts of a group, by seat (none: nullptr), give for a tile of a seat's body.
std::optional<SimTile> decode_tile(const std::vector<const SimPart*>& seats,
                                   const ft::CodePlaces& places, std::uint64_t slice_tiles,
                                   int seat, std::uint64_t tile);

}  // namespace holdfast::sim
