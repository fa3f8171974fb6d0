#include "group/parts/departure.h"

#include <algorithm>

#include "base/planted.h"
#include "comm/call/call.h"
#include "comm/call/call_log.h"
#include "ft/message.h"

namespace holdfast::group {

using comm::FrameKind;

void Departure::begin(std::shared_ptr<Leaving> leaving, Instant now) {
  leaving_ = std::move(leaving);
  look(now);
}

Status Departure::status() const {
  if (leaving_ && has_settled()) return leaving_->outcome;
  const std::string group = "group " + settings_.group;
  if (Status ended = host_.health(); !parted_ && ended.code() == Code::kNotMember) return ended;
  if (!host_.quiet()) return {Code::kTimeout, group + " was closed with ops still running"};
  std::vector<Rank> doubtful = ranks_in_doubt();
  if (doubtful.empty()) return Status::ok();
  const std::uint64_t first = host_.first_kept();
  std::string text = group + " was closed in epoch " + std::to_string(roster_.epoch.value) +
                     ", which " + comm::rank_list(doubtful) + " did not confirm: ";
  text += first < host_.first_uncalled()
              ? "whether it has the results of collective #" + std::to_string(first) +
                    " and later ones is not known"
              : "if it lives, it may go on alone in an older view";
  return Status(Code::kUnconfirmed,
                text + "; of two checkpoints, the one of the higher epoch counts")
      .about(std::move(doubtful), roster_.epoch);
}

void Departure::progress(Instant now) {
  if (!leavers_.empty()) answer();
  if (leaving_) look(now);
}

Instant Departure::next_deadline() const {
  return asks() ? next_closing_ : Instant{Duration::max()};
}

// Whether its own ops have ended, and others have not answered yet.
bool Departure::asks() const { return leaving_ && !parted_ && host_.quiet() && !has_settled(); }

void Departure::look(Instant now) {
  if (!host_.quiet() || has_settled()) return;
  if (!leaving_->quiet.exchange(true, std::memory_order_acq_rel)) host_.await_outcasts(now);
  const std::vector<Rank> doubtful = ranks_in_doubt();
  const bool answered = std::none_of(roster_.members.begin(), roster_.members.end(),
                                     [this](MemberId member) { return waits_for(member); });
  if (doubtful.empty() || (answered && host_.has_given_up())) {
    // This holds for the current view; the next one may begin before a waiting thread has its turn.
    leaving_->outcome = status();
    leaving_->settled.store(true, std::memory_order_release);
    return;
  }
  // The members need nothing more, and an op that misses this member must not wait.
  if (answered && !parted_) host_.part_soon();
  if (now < next_closing_ || answered) return;
  // Frames are repeated: those sent over a connection that broke may not have been heard.
  next_closing_ = now + settings_.pause;
  for (const MemberId member : roster_.members) {
    if (waits_for(member)) host_.tell(member, FrameKind::kClosing, roster_.epoch);
  }
}

// Whether the member has neither answered in this view nor left.
bool Departure::waits_for(MemberId member) const {
  return !parted_ && member != ft::kNobody && member != settings_.self &&
         !roster_.left.contains(member) && !settled_.contains(member);
}

std::vector<Rank> Departure::ranks_in_doubt() const {
  const bool over = !parted_ && !host_.health().is_ok();
  if (!settings_.protect || over || is_planted(Planted::kLeaveAtOnce)) return {};
  const std::vector<Rank> at_large = host_.ranks_at_large();
  std::vector<Rank> doubtful;
  for (std::size_t r = 0; r < roster_.members.size(); ++r) {
    const bool voted_out =
        std::find(at_large.begin(), at_large.end(), roster_.world_ranks[r]) != at_large.end();
    if (voted_out || waits_for(roster_.members[r])) {
      doubtful.push_back({static_cast<std::int32_t>(r)});
    }
  }
  return doubtful;
}

void Departure::on_closing(MemberId from, Epoch epoch, OpSeq next) {
  if (!roster_.has(from) || epoch < roster_.epoch) return;
  const OpSeq whole =
      comm::nearest_number(static_cast<std::uint32_t>(next.value), {host_.first_uncalled()});
  leavers_[from] = {whole, epoch};
  note_leavers();
  answer();
}

void Departure::on_settled(MemberId from, Epoch epoch) {
  if (roster_.has(from) && epoch == roster_.epoch) settled_.insert(from);
}

void Departure::on_relinked(MemberId member) {
  if (!leaving_ || !leaving_->quiet.load(std::memory_order_relaxed)) return;
  host_.tell(member, FrameKind::kClosing, roster_.epoch);
}

void Departure::on_view() {
  settled_.clear();
  next_closing_ = {};
  note_leavers();
}

// A member that leaves needs nothing of others any more.
void Departure::note_leavers() {
  std::erase_if(leavers_, [this](const auto& leaver) {
    return !roster_.has(leaver.first) || leaver.second.epoch < roster_.epoch;
  });
  for (const auto& [member, leaver] : leavers_) {
    if (leaver.epoch == roster_.epoch) settled_.insert(member);
  }
}

void Departure::answer() {
  // Ops that were not called here by now never will be.
  const bool ended_here = !host_.health().is_ok();
  const bool over = ended_here || (leaving_ && host_.quiet());
  const std::uint64_t ended = host_.first_running();
  std::erase_if(leavers_, [&](const auto& leaver) {
    const auto& [member, wants] = leaver;
    if (roster_.has_gone(member)) return true;
    // Where the group has ended no later view of it begins.
    const bool later = wants.epoch > roster_.epoch && !ended_here;
    if (later || (!over && ended < wants.next.value)) return false;
    host_.tell(member, FrameKind::kSettled, wants.epoch);
    return true;
  });
}

}  // namespace holdfast::group
