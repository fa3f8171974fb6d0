// Choice: which snapshot all go on from, and where each rank's part of it comes from, by what the
// keepers and their storage report. Pure: whoever has the reports comes to the same.
//
// It is the newest of which every code group has enough: of no codeword that lacks data, more than
// m parts are lost. A part counts for a snapshot only if its hashes are the agreed ones. What no
// reporter knows to be committed counts as well, if there is enough of it: its parts were complete
// before anybody began to commit, and the lost ones may have committed.
// Why: docs/decisions/0187-snapshots-commit-by-an-op-of-the-keepers.md
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ft/snapshots/code_places.h"
#include "ft/snapshots/snapshot_id.h"

namespace holdfast::ft {

// The nearer comes first.
enum class PartPlace : std::uint8_t { kMemory, kStorage };

// What one keeper, or one folder of storage, has of one rank's image and parity.
struct PartReport {
  int holder = 0;  // which keeper tells of it
  PartPlace place{};
  SnapshotId id;
  bool committed = false;  // or its manifest verifies
  int rank = 0;
  std::vector<int> group;            // the seats of the rank's code group
  int parity = 0;                    // m
  std::uint64_t slice_tiles = 0;     // of this group
  std::vector<std::uint64_t> parts;  // agreed hashes, by rank: its size is the world's
  bool has_body = false;
  std::uint64_t hashes = 0;  // of the body as it is now, damaged tiles left out of account
  std::vector<std::uint64_t> damaged;                       // tiles of the body
  std::vector<bool> rows;                                   // whether parity row i is there
  std::vector<std::pair<int, std::uint64_t>> damaged_rows;  // (row, tile of it)
};

// A trainer that lives, stands at a step boundary, and has these ranks' state (itself, replicas).
struct LiveReport {
  int holder = 0;
  SnapshotId id;
  int ranks = 0;
  std::vector<int> covers;
};

struct RestoreReports {
  std::vector<PartReport> parts;
  std::vector<LiveReport> live;
  std::uint64_t reached = 0;  // the last step that any trainer has taken
  // What a restore has found to decode to other bytes than were agreed.
  std::vector<SnapshotId> refused;
};

enum class SourceKind : std::uint8_t { kLive, kKeeper, kDecode, kStorage };
inline constexpr int kSourceKinds = 4;
const char* source_kind_name(SourceKind kind);

struct PartGiver {
  int rank = 0;
  int holder = 0;
  PartPlace place{};
};

struct RankSource {
  int rank = 0;
  SnapshotId id;
  SourceKind kind{};
  int holder = 0;                     // unless it is decoded
  std::vector<std::uint64_t> repair;  // tiles of the body that are decoded; all where kDecode
  std::vector<PartGiver> givers;      // of what is decoded
};

struct RestoreChoice {
  bool fresh = false;  // there has been no snapshot: all begin anew
  SnapshotId id;
  std::vector<std::uint64_t> parts;  // what each rank's restored hashes must be
  std::vector<RankSource> sources;   // by rank of the snapshot's world
  std::uint64_t steps_lost = 0;
  std::string reason;
};

Result<RestoreChoice> choose_snapshot(const RestoreReports& reports);

}  // namespace holdfast::ft
