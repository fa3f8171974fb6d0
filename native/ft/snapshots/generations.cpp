#include "ft/snapshots/generations.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/planted.h"

namespace holdfast::ft {
namespace {

constexpr std::array<const char*, kSnapshotDos> kDoNames = {
    "capture",   "tell",    "code",  "close",   "return",
    "committed", "dropped", "flush", "exposed", "protected"};
constexpr std::array<const char*, 6> kStateNames = {"empty", "filling", "captured",
                                                    "coded", "doubt",   "committed"};

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

}  // namespace

const char* snapshot_do_name(SnapshotDo what) {
  return kDoNames.at(static_cast<std::size_t>(what));
}

const char* slot_state_name(SlotState state) {
  return kStateNames.at(static_cast<std::size_t>(state));
}

Generations::Generations(const GenerationOptions& options)
    : options_(options), slots_(static_cast<std::size_t>(std::max(options.slots, 2))) {}

SnapshotActions Generations::step(const SnapshotEvent& event, Instant now) {
  std::visit([&](const auto& one) { on(one, now); }, event);
  return std::exchange(actions_, {});
}

std::optional<Instant> Generations::next_at() const {
  if (!waiting_) return std::nullopt;
  return waiting_->since + options_.patience;
}

int Generations::newest_committed() const {
  int newest = -1;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state != SlotState::kCommitted) continue;
    if (newest < 0 || slots_[i].id > slots_[static_cast<std::size_t>(newest)].id) {
      newest = static_cast<int>(i);
    }
  }
  return newest;
}

std::optional<SnapshotId> Generations::committed() const {
  const int newest = newest_committed();
  if (newest < 0) return std::nullopt;
  return slots_[static_cast<std::size_t>(newest)].id;
}

int Generations::find(const SnapshotId& id) const {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const bool is_there = slots_[i].state != SlotState::kEmpty || slots_[i].readers > 0;
    if (is_there && slots_[i].id == id) return static_cast<int>(i);
  }
  return -1;
}

// The oldest that may be overwritten: a snapshot's slot stays until a newer one is committed, and
// while somebody reads it.
int Generations::free_slot(std::string& why) const {
  const int newest = newest_committed();
  int free = -1;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const SnapshotSlot& one = slots_[i];
    if (one.state == SlotState::kEmpty && one.readers == 0) return static_cast<int>(i);
    const bool is_newest = static_cast<int>(i) == newest && !is_planted(Planted::kOverNewest);
    const bool is_read = one.readers > 0 && !is_planted(Planted::kOverRead);
    if (is_read) why = "the memory of " + to_text(one.id) + " is being read";
    if (one.state != SlotState::kCommitted || is_newest || is_read) continue;
    const bool planted_newest = is_planted(Planted::kOverNewest) && static_cast<int>(i) == newest;
    if (planted_newest) return static_cast<int>(i);
    if (free < 0 || one.id < slots_[static_cast<std::size_t>(free)].id) free = static_cast<int>(i);
  }
  return free;
}

SnapshotAction& Generations::act(SnapshotDo what, int number) {
  SnapshotAction& action = actions_.emplace_back();
  action.what = what;
  action.slot = number;
  if (number >= 0) action.id = slot(number).id;
  return action;
}

void Generations::expose(const std::string& why) {
  if (exposed_ == why) return;
  exposed_ = why;
  act(why.empty() ? SnapshotDo::kProtected : SnapshotDo::kExposed).reason = why;
}

// S2: whatever this keeper's group has promised is in the snapshot before.
bool Generations::guards_last_take() const {
  const auto newest = committed();
  return grouped_ && last_take_ && newest && newest->epoch == epoch_ && newest->step >= *last_take_;
}

void Generations::let_return(std::uint64_t step, bool is_safe) {
  SnapshotAction& action = act(SnapshotDo::kReturn);
  action.id = {epoch_, step};
  action.ok = is_safe;
  if (!is_safe) action.reason = exposed_;
}

void Generations::on(const KeepersBegun& event, Instant now) {
  if (event.epoch <= epoch_) return;
  epoch_ = event.epoch;
  ranks_ = event.ranks;
  rank_ = event.rank;
  flushed_ = event.flushed;
  grouped_ = true;
  leave_making("the keepers have begun anew");
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const int number = static_cast<int>(i);
    SnapshotSlot& one = slots_[i];
    if (one.state == SlotState::kEmpty) continue;
    const bool is_chosen = event.settled && one.id == *event.settled;
    if (one.state == SlotState::kDoubt && is_chosen) commit(number, "the keepers have it");
    if (one.state == SlotState::kDoubt) drop(number, "the keepers could not settle on it");
    // What not all can have would stand in the way of what they can.
    const bool is_beyond = event.settled && one.id > *event.settled;
    if (one.state == SlotState::kCommitted && is_beyond) {
      drop(number, "all go on from " + to_text(*event.settled));
    }
  }
  if (event.settled) last_take_.reset();
  expose("the keepers have begun anew, and have not committed a snapshot yet");
  end_making(now);
}

void Generations::on(const TakeAsked& event, Instant now) {
  reached_ = std::max(reached_, event.step);
  if (!grouped_) {
    last_take_ = event.step;
    return let_return(event.step, false);
  }
  if (!making_) return begin(event, now);
  if (is_planted(Planted::kReturnEarly)) {
    let_return(event.step, true);
    owed_ = last_take_ = event.step;
    return;
  }
  if (stalled_) {
    let_return(event.step, false);
    owed_ = last_take_ = event.step;
    return;
  }
  // Its trainer has gone on without an answer if it waits already.
  if (waiting_) last_take_ = waiting_->take.step;
  waiting_ = {event, now};
}

void Generations::begin(const TakeAsked& take, Instant) {
  const bool is_safe = guards_last_take();
  if (is_safe) expose("");
  if (!is_safe && exposed_.empty()) {
    expose("step " + std::to_string(last_take_.value_or(0)) + " was not taken in time");
  }
  let_return(take.step, is_safe);
  last_take_ = take.step;
  owed_.reset();
  std::string why = "no memory is free";
  const int number = free_slot(why);
  making_ = {take.step, number, MakingStage::kCapturing};
  if (number < 0) {
    expose(to_text(SnapshotId{epoch_, take.step}) + " was not taken: " + why);
    return tell(false, 0);
  }
  SnapshotSlot& one = slot(number);
  const int readers = one.readers;
  one = {SlotState::kFilling, {epoch_, take.step}, take.layout, 0, {}, readers};
  act(SnapshotDo::kCapture, number);
}

void Generations::tell(bool ok, std::uint64_t hashes) {
  making_->stage = MakingStage::kTelling;
  SnapshotAction& action = act(SnapshotDo::kTell, making_->slot);
  action.id = {epoch_, making_->step};
  action.ok = ok;
  action.part = {making_->step, ok, 0, hashes};
  if (making_->slot >= 0) action.part.layout = slot(making_->slot).layout;
}

void Generations::on(const BodyCaptured& event, Instant) {
  if (!making_ || making_->step != event.step || making_->stage != MakingStage::kCapturing) return;
  slot(making_->slot).state = SlotState::kCaptured;
  slot(making_->slot).digest = event.hashes;
  tell(true, event.hashes);
}

void Generations::on(const CaptureFailed& event, Instant) {
  if (!making_ || making_->step != event.step || making_->stage != MakingStage::kCapturing) return;
  expose(to_text(SnapshotId{epoch_, event.step}) + " was not captured: " + event.why);
  drop(std::exchange(making_->slot, -1), event.why);
  tell(false, 0);
}

void Generations::on(const PartsGathered& event, Instant now) {
  if (!making_ || making_->stage != MakingStage::kTelling) return;
  const bool is_ours = event.told.size() == static_cast<std::size_t>(ranks_);
  if (!event.missing.empty() || !is_ours) return lose_keepers(event.missing, "while captured");
  std::uint64_t newest = 0;
  std::uint64_t oldest = UINT64_MAX;
  std::vector<int> unwell;
  for (std::size_t rank = 0; rank < event.told.size(); ++rank) {
    newest = std::max(newest, event.told[rank].step);
    oldest = std::min(oldest, event.told[rank].step);
    const bool is_mine = static_cast<int>(rank) == rank_;
    const bool is_well = event.told[rank].ok && (!is_mine || making_->slot >= 0);
    if (!is_well) unwell.push_back(static_cast<int>(rank));
  }
  if (newest == making_->step && oldest < newest) {
    // Others skip to this step: it is told again, as it was.
    const PartTold& mine = event.told.at(static_cast<std::size_t>(rank_));
    return tell(mine.ok, mine.hashes);
  }
  const bool is_behind = newest > making_->step;
  if (is_behind || !unwell.empty()) {
    const std::string why = is_behind ? "others were at step " + std::to_string(newest) + " by then"
                                      : ranks_text(unwell) + " did not capture it";
    expose(to_text(SnapshotId{epoch_, making_->step}) + " was not taken: " + why);
    if (making_->slot >= 0) drop(making_->slot, why);
    return end_making(now);
  }
  SnapshotSlot& one = slot(making_->slot);
  one.parts.clear();
  for (const PartTold& part : event.told) one.parts.push_back(part.hashes);
  one.digest = snapshot_digest(one.id, one.parts);
  making_->stage = MakingStage::kCoding;
  act(SnapshotDo::kCode, making_->slot);
}

void Generations::on(const ParityMade& event, Instant) {
  if (!making_ || making_->stage != MakingStage::kCoding) return;
  const bool is_whole = event.missing.empty() || is_planted(Planted::kCountStopped);
  const bool ok = is_whole && event.why.empty();
  if (ok) slot(making_->slot).state = SlotState::kCoded;
  making_->stage = MakingStage::kClosing;
  SnapshotAction& action = act(SnapshotDo::kClose, making_->slot);
  action.ok = ok;
  action.flushing = flushing_.has_value();
  action.reason = event.why;
  if (!is_whole) action.reason = ranks_text(event.missing) + " is not in the parity";
}

void Generations::on(const ClosingEnded& event, Instant now) {
  if (!making_ || making_->stage != MakingStage::kClosing) return;
  const int number = making_->slot;
  const bool is_alone = is_planted(Planted::kCommitAlone);
  if (!event.missing.empty() && !is_alone) return lose_keepers(event.missing, "at the commit");
  if (!event.all_ok && !(is_alone && slot(number).state == SlotState::kCoded)) {
    expose(to_text(slot(number).id) + " was not committed: a keeper has not all of it");
    drop(number, "a keeper has not all of it");
    return end_making(now);
  }
  commit(number, "all keepers have their parts");
  // All decide alike: what was flushed last is agreed before anybody says that it is not flushing.
  const std::uint64_t every = options_.flush_every;
  const std::uint64_t since = flushed_ ? flushed_->step : 0;
  const std::uint64_t done = slot(number).id.step;
  const bool is_due = every > 0 && (done >= since + every || done < since);
  if (is_due && !event.flushing && !flushing_)
    flush(number, "every " + std::to_string(every) + " steps");
  end_making(now);
}

void Generations::commit(int number, const std::string& reason) {
  slot(number).state = SlotState::kCommitted;
  act(SnapshotDo::kCommitted, number).reason = reason;
  if (guards_last_take()) expose("");
}

void Generations::drop(int number, const std::string& reason) {
  if (number < 0) return;
  act(SnapshotDo::kDropped, number).reason = reason;
  // Whoever still reads it will say so by its name.
  SnapshotSlot left;
  left.id = slot(number).id;
  left.readers = slot(number).readers;
  slot(number) = left;
}

// What was being made has its end: the next one can begin.
void Generations::end_making(Instant now) {
  making_.reset();
  stalled_ = false;
  if (waiting_) {
    const TakeAsked take = std::exchange(waiting_, std::nullopt)->take;
    return begin(take, now);
  }
  if (!owed_) return;
  making_ = {*std::exchange(owed_, std::nullopt), -1, MakingStage::kTelling};
  tell(false, 0);
}

// What is being made will not be closed by the group that began it.
void Generations::leave_making(const std::string& why) {
  if (making_ && making_->slot >= 0) {
    SnapshotSlot& one = slot(making_->slot);
    // Its closing op may have ended well at one that is lost, whose trainer goes by that.
    const bool in_doubt = one.state == SlotState::kCoded && !is_planted(Planted::kForgetDoubt);
    if (in_doubt) {
      one.state = SlotState::kDoubt;
    } else {
      drop(making_->slot, why);
    }
  }
  making_.reset();
  owed_.reset();
  stalled_ = false;
}

void Generations::lose_keepers(const std::vector<int>& ranks, const std::string& when) {
  grouped_ = false;
  const bool is_anew = ranks.empty();
  expose(is_anew ? "the keepers begin anew" : "the keeper of " + ranks_text(ranks) + " was lost");
  leave_making(is_anew ? exposed_ : ranks_text(ranks) + " was lost " + when);
  if (!waiting_) return;
  const std::uint64_t step = std::exchange(waiting_, std::nullopt)->take.step;
  last_take_ = step;
  let_return(step, false);
}

void Generations::on(const KeepersLost& event, Instant) {
  if (grouped_) lose_keepers(event.ranks, "before the commit");
}

void Generations::on(const TrainerGone& event, Instant) {
  waiting_.reset();
  if (making_ && making_->stage == MakingStage::kCapturing) {
    drop(std::exchange(making_->slot, -1), "the trainer has ended");
    tell(false, 0);
  }
  const int newest = newest_committed();
  const bool is_due =
      event.all && newest >= 0 && !flushing_ && (!flushed_ || *flushed_ < slot(newest).id);
  if (is_due) flush(newest, "no trainer is left");
}

void Generations::flush(int number, const std::string& reason) {
  flushing_ = slot(number).id;
  ++slot(number).readers;
  act(SnapshotDo::kFlush, number).reason = reason;
}

void Generations::on(const FlushBegun& event, Instant) {
  const int number = find(event.id);
  if (number < 0 || flushing_) return;
  flushing_ = event.id;
  ++slot(number).readers;
}

void Generations::on(const FlushEnded& event, Instant) {
  if (!flushing_ || *flushing_ != event.id) return;
  const int number = find(event.id);
  if (number >= 0) --slot(number).readers;
  flushing_.reset();
  if (event.why.empty()) flushed_ = event.id;
}

void Generations::on(const RestoreBegun& event, Instant) {
  const int number = find(event.id);
  if (number >= 0) ++slot(number).readers;
}

void Generations::on(const RestoreEnded& event, Instant) {
  const int number = find(event.id);
  if (number >= 0 && slot(number).readers > 0) --slot(number).readers;
}

// S4: nobody waits longer for a keeper than this.
void Generations::on(const TimePassed&, Instant now) {
  if (!waiting_ || now < waiting_->since + options_.patience) return;
  const std::uint64_t step = std::exchange(waiting_, std::nullopt)->take.step;
  expose("the snapshot before step " + std::to_string(step) + " was not committed in time");
  stalled_ = true;
  owed_ = last_take_ = step;
  let_return(step, false);
}

}  // namespace holdfast::ft
