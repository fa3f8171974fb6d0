// Generations: one keeper's snapshots, from the trainer's take() to the commit and the flush. It is
// told what happens and says what to do, with reasons; it holds no bytes.
//
// A snapshot takes three ops of all keepers: an all_gather of what each has captured, the code's
// reduce_scatter, and a closing all_reduce. It counts when all keepers were in the closing op and
// all were well. A keeper whose closing op lost somebody is in doubt: the lost one may have seen it
// end well. What is in doubt is kept until the next group settles it (KeepersBegun::settled), by
// the choice that a restore makes.
//
// All keepers run the same ops in the same order: one that cannot take part in a snapshot says so
// in its first op. Whoever is behind the greatest step told there gives its own up; so keepers that
// skipped different steps meet again.
// Why: docs/decisions/0187-snapshots-commit-by-an-op-of-the-keepers.md
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "ft/snapshots/snapshot_events.h"

namespace holdfast::ft {

enum class SlotState : std::uint8_t {
  kEmpty,
  kFilling,    // the trainer's bytes are coming
  kCaptured,   // the body is there
  kCoded,      // and the parity, of everybody's body
  kDoubt,      // others may have committed it
  kCommitted,  // it counts
};
const char* slot_state_name(SlotState state);

struct SnapshotSlot {
  SlotState state = SlotState::kEmpty;
  SnapshotId id;
  std::uint64_t layout = 0;
  std::uint64_t digest = 0;          // of all parts
  std::vector<std::uint64_t> parts;  // each rank's hashes
  int readers = 0;                   // flushes and restores
};

struct GenerationOptions {
  // Two: the newest committed, and the next. A third lets snapshots go on while one is flushed.
  int slots = 2;
  Duration patience = std::chrono::seconds(5);  // that take() has with keepers
  std::uint64_t flush_every = 0;                // steps; 0: only when told, or after a crash
};

class Generations {
 public:
  explicit Generations(const GenerationOptions& options);

  SnapshotActions step(const SnapshotEvent& event, Instant now);
  // When it wants to be told that time has passed.
  std::optional<Instant> next_at() const;

  const std::vector<SnapshotSlot>& slots() const { return slots_; }
  std::uint32_t epoch() const { return epoch_; }
  std::optional<SnapshotId> committed() const;
  std::optional<SnapshotId> flushed() const { return flushed_; }
  // Why a loss may cost more than the last step; empty: it does not.
  const std::string& exposed() const { return exposed_; }
  std::uint64_t reached() const { return reached_; }

 private:
  enum class MakingStage : std::uint8_t { kCapturing, kTelling, kCoding, kClosing };
  struct Making {
    std::uint64_t step = 0;
    int slot = -1;  // none: it takes part for the others' sake
    MakingStage stage = MakingStage::kCapturing;
  };
  struct Waiting {
    TakeAsked take;
    Instant since;
  };

  void on(const KeepersBegun& event, Instant now);
  void on(const TakeAsked& event, Instant now);
  void on(const BodyCaptured& event, Instant now);
  void on(const CaptureFailed& event, Instant now);
  void on(const PartsGathered& event, Instant now);
  void on(const ParityMade& event, Instant now);
  void on(const ClosingEnded& event, Instant now);
  void on(const KeepersLost& event, Instant now);
  void on(const TrainerGone& event, Instant now);
  void on(const FlushBegun& event, Instant now);
  void on(const FlushEnded& event, Instant now);
  void on(const RestoreBegun& event, Instant now);
  void on(const RestoreEnded& event, Instant now);
  void on(const TimePassed& event, Instant now);

  SnapshotSlot& slot(int number) { return slots_.at(static_cast<std::size_t>(number)); }
  int newest_committed() const;
  int find(const SnapshotId& id) const;
  // Where the next snapshot may go; -1: nowhere, and why.
  int free_slot(std::string& why) const;

  void begin(const TakeAsked& take, Instant now);
  void tell(bool ok, std::uint64_t hashes);
  void commit(int number, const std::string& reason);
  void drop(int number, const std::string& reason);
  void end_making(Instant now);
  void leave_making(const std::string& why);
  void lose_keepers(const std::vector<int>& ranks, const std::string& when);
  void let_return(std::uint64_t step, bool is_safe);
  void expose(const std::string& why);
  void flush(int number, const std::string& reason);
  bool guards_last_take() const;
  SnapshotAction& act(SnapshotDo what, int number = -1);

  GenerationOptions options_;
  int rank_ = 0;
  std::vector<SnapshotSlot> slots_;
  std::uint32_t epoch_ = 0;
  int ranks_ = 0;
  bool grouped_ = false;
  std::optional<Making> making_;
  std::optional<Waiting> waiting_;
  std::optional<std::uint64_t> owed_;  // a step that others may wait for, which is not captured
  bool stalled_ = false;               // what is being made has used up take()'s patience
  std::optional<std::uint64_t> last_take_;
  std::uint64_t reached_ = 0;
  std::optional<SnapshotId> flushing_;
  std::optional<SnapshotId> flushed_;
  std::string exposed_ = "no snapshot has been taken yet";
  SnapshotActions actions_;
};

}  // namespace holdfast::ft
