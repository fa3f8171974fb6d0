// Snapshot events: what a keeper is told, and what it is to do, as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ft/snapshots/snapshot_id.h"

namespace holdfast::ft {

// The keepers have a group, anew. `settled` is what their choice found that all can have, `flushed`
// the newest that storage has; both are the same for all. An epoch that is not newer is ignored.
struct KeepersBegun {
  std::uint32_t epoch = 0;
  int rank = 0;
  int ranks = 0;
  std::optional<SnapshotId> settled;
  std::optional<SnapshotId> flushed;
};
// The trainer is at a step boundary, and calls take().
struct TakeAsked {
  std::uint64_t step = 0;
  std::uint64_t layout = 0;
};
// The trainer's body is in its slot; `hashes` is the hash of its tiles' hashes.
struct BodyCaptured {
  std::uint64_t step = 0;
  std::uint64_t hashes = 0;
};
struct CaptureFailed {
  std::uint64_t step = 0;
  std::string why;  // it names the tensor
};
// What one keeper puts into the first op of a snapshot.
struct PartTold {
  std::uint64_t step = 0;
  bool ok = false;
  std::uint64_t layout = 0;
  std::uint64_t hashes = 0;
  friend bool operator==(const PartTold&, const PartTold&) = default;
};
// The first op, an all_gather, has ended. What a missing rank told means nothing.
struct PartsGathered {
  std::vector<PartTold> told;  // by rank
  std::vector<int> missing;
};
// The code's reduce_scatter has ended, and this keeper's parity is in its slot. It has failed where
// anybody's tile had other hashes by then than it was captured with, which all who hold parity must
// know from the op itself: whoever saw it may be lost before the closing op, and the others would
// keep a parity of wrong bytes as if it were good.
struct ParityMade {
  std::vector<int> missing;  // whose bodies are not in it
  std::string why;           // it failed here; empty: it did not
};
// The closing op, an all_reduce, has ended.
struct ClosingEnded {
  std::vector<int> missing;
  bool all_ok = false;    // the least of what its contributors said
  bool flushing = false;  // one of them has a flush under way
};
// Some keepers are lost, or (no ranks) all begin anew. It must come before this keeper reports what
// it has: from then on nothing is overwritten until the keepers have begun.
struct KeepersLost {
  std::vector<int> ranks;
};
// The trainer's process has ended without goodbye; `all`: nobody's trainer is left.
struct TrainerGone {
  bool all = false;
};
// A flush that this machine did not ask for, as at the end of a job.
struct FlushBegun {
  SnapshotId id;
};
struct FlushEnded {
  SnapshotId id;
  std::string why;  // it failed; empty: all hosts' files verify
};
struct RestoreBegun {
  SnapshotId id;
};
struct RestoreEnded {
  SnapshotId id;
};
struct TimePassed {};

using SnapshotEvent =
    std::variant<KeepersBegun, TakeAsked, BodyCaptured, CaptureFailed, PartsGathered, ParityMade,
                 ClosingEnded, KeepersLost, TrainerGone, FlushBegun, FlushEnded, RestoreBegun,
                 RestoreEnded, TimePassed>;

enum class SnapshotDo : std::uint8_t {
  kCapture,    // the trainer's tensors, into the slot
  kTell,       // the first op, with this part
  kCode,       // the parity, into the slot
  kClose,      // the closing op, with `ok` and `flushing`
  kReturn,     // let take(step) return; ok: the state before it is protected
  kCommitted,  // the slot's snapshot counts
  kDropped,    // it does not, and its slot may be overwritten
  kFlush,      // write it to storage
  kExposed,    // from now on a loss may cost more: `reason`
  kProtected,  // and no more
};
inline constexpr int kSnapshotDos = 10;
const char* snapshot_do_name(SnapshotDo what);

struct SnapshotAction {
  SnapshotDo what{};
  int slot = -1;
  SnapshotId id;
  bool ok = true;
  bool flushing = false;
  PartTold part;
  std::string reason;
};
using SnapshotActions = std::vector<SnapshotAction>;

}  // namespace holdfast::ft
