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
  if (is_asked()) ask_for_leavers(now);
  if (!probes_.empty()) answer_probes();
  if (!leavers_.empty()) answer();
  if (leaving_) look(now);
}

Instant Departure::next_deadline() const {
  const Instant closing = asks() ? next_closing_ : Instant{Duration::max()};
  return leavers_.empty() || !is_asked() ? closing : std::min(closing, next_probe_);
}

// Whether its own ops have ended, and others have not answered yet.
bool Departure::asks() const { return leaving_ && !parted_ && host_.quiet() && !has_settled(); }

void Departure::look(Instant now) {
  if (!host_.quiet() || has_settled()) return;
  if (!leaving_->quiet.exchange(true, std::memory_order_acq_rel)) host_.await_outcasts(now);
  const std::vector<Rank> doubtful = ranks_in_doubt();
  const std::vector<Rank> others = awaited();
  const bool answered = others.empty();
  if (doubtful.empty() || (answered && host_.has_given_up())) {
    if (doubtful.empty() && is_asked()) tell_all();
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
  const bool for_others = is_asked();
  for (const Rank rank : others) {
    const MemberId member = roster_.member(rank);
    if (for_others) {
      host_.tell_of(member, FrameKind::kClosing, roster_.epoch, host_.first_uncalled(),
                    Ask::kForOthers);
    } else {
      host_.tell(member, FrameKind::kClosing, roster_.epoch);
    }
  }
}

// Whether the member has neither answered in this view nor left.
bool Departure::waits_for(MemberId member) const {
  if (parted_ || member == ft::kNobody || member == settings_.self) return false;
  if (roster_.left.contains(member) || settled_.contains(member)) return false;
  if (!host_.is_sparse()) return true;
  if (let_go_ || (ended_by_all_ && host_.first_uncalled() <= ended_by_all_->value)) return false;
  const MemberId first = asked();
  if (first != settings_.self) return member == first;
  return !has_confirmed(member, {host_.first_uncalled()});
}

// The member of a sparse world that others ask. It does not tell them that it leaves: to them, that
// would be its answer.
MemberId Departure::asked() const {
  for (const MemberId member : roster_.members) {
    if (member != ft::kNobody && !roster_.left.contains(member)) return member;
  }
  return settings_.self;
}

// Who leaves later has nobody to ask who knows of all.
void Departure::tell_all() {
  for (const MemberId member : roster_.members) {
    const bool is_there = member != ft::kNobody && member != settings_.self &&
                          !roster_.left.contains(member) && !settled_.contains(member);
    if (!is_there) continue;
    host_.tell_of(member, FrameKind::kSettled, roster_.epoch, host_.first_uncalled(), Ask::kForAll);
  }
}

// Who leaves begins nothing more.
bool Departure::has_confirmed(MemberId member, OpSeq next) const {
  if (roster_.left.contains(member) || settled_.contains(member)) return true;
  const auto known = confirmed_.find(member);
  return known != confirmed_.end() && known->second >= next;
}

// Two of them stand for all: a leaver needs nobody's word but that of the others.
std::vector<MemberId> Departure::who_lack(OpSeq next) const {
  std::vector<MemberId> lack;
  for (const MemberId member : roster_.members) {
    if (member == ft::kNobody || member == settings_.self || has_confirmed(member, next)) continue;
    lack.push_back(member);
    if (lack.size() == 2) break;
  }
  return lack;
}

// The frames are repeated, as a leaver's are.
void Departure::ask_for_leavers(Instant now) {
  if (now < next_probe_) return;
  OpSeq most{};
  bool is_due = false;
  for (const auto& [member, leaver] : leavers_) {
    if (leaver.epoch != roster_.epoch) continue;
    most = std::max(most, leaver.next);
    is_due = true;
  }
  if (!is_due) return;
  next_probe_ = now + settings_.pause;
  for (const MemberId member : roster_.members) {
    if (member == ft::kNobody || member == settings_.self || has_confirmed(member, most)) continue;
    host_.tell_of(member, FrameKind::kClosing, roster_.epoch, most.value, Ask::kForOthers);
  }
}

// Whether this member has ended what a leaver had called, or never will.
bool Departure::has_ended(const Leaver& asked) const {
  const bool ended_here = !host_.health().is_ok();
  // Ops that were not called here by now never will be.
  const bool over = ended_here || (leaving_ && host_.quiet());
  // Where the group has ended no later view of it begins.
  const bool later = asked.epoch > roster_.epoch && !ended_here;
  return !later && (over || host_.first_running() >= asked.next.value);
}

void Departure::answer_probes() {
  std::erase_if(probes_, [&](const auto& probe) {
    const auto& [member, asks] = probe;
    if (roster_.has_gone(member)) return true;
    if (!has_ended(asks)) return false;
    host_.tell_of(member, FrameKind::kSettled, asks.epoch, asks.next.value, Ask::kForOthers);
    return true;
  });
}

OpSeq Departure::whole(OpSeq next) const {
  return comm::nearest_number(static_cast<std::uint32_t>(next.value), {host_.first_uncalled()});
}

// Those of members for which this one waits; of a sparse world it is one, but for who is asked.
std::vector<Rank> Departure::awaited() const {
  if (host_.is_sparse()) {
    const MemberId first = asked();
    if (first != settings_.self) {
      const auto rank = waits_for(first) ? roster_.rank_of(first) : std::nullopt;
      return rank ? std::vector{*rank} : std::vector<Rank>{};
    }
  }
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < roster_.members.size(); ++r) {
    if (waits_for(roster_.members[r])) ranks.push_back({static_cast<std::int32_t>(r)});
  }
  return ranks;
}

std::vector<Rank> Departure::ranks_in_doubt() const {
  const bool over = !parted_ && !host_.health().is_ok();
  if (!settings_.protect || over || is_planted(Planted::kLeaveAtOnce)) return {};
  const std::vector<Rank> at_large = host_.ranks_at_large();
  std::vector<Rank> doubtful = awaited();
  if (at_large.empty()) return doubtful;
  doubtful.clear();
  for (std::size_t r = 0; r < roster_.members.size(); ++r) {
    const bool voted_out =
        std::find(at_large.begin(), at_large.end(), roster_.world_ranks[r]) != at_large.end();
    if (voted_out || waits_for(roster_.members[r])) {
      doubtful.push_back({static_cast<std::int32_t>(r)});
    }
  }
  return doubtful;
}

void Departure::on_closing(MemberId from, Epoch epoch, OpSeq next, Ask ask) {
  if (!roster_.has(from) || epoch < roster_.epoch) return;
  if (ask == Ask::kForOthers) {
    probes_[from] = {whole(next), epoch};
    return answer_probes();
  }
  leavers_[from] = {whole(next), epoch};
  note_leavers();
  answer();
}

void Departure::on_settled(MemberId from, Epoch epoch, OpSeq next, Ask ask) {
  if (!roster_.has(from) || epoch != roster_.epoch) return;
  if (ask == Ask::kForAll) {
    ended_by_all_ = std::max(ended_by_all_.value_or(OpSeq{}), whole(next));
    return;
  }
  if (ask != Ask::kForOthers) {
    let_go_ = let_go_ || from == asked();
    settled_.insert(from);
    return;
  }
  OpSeq& known = confirmed_[from];
  known = std::max(known, whole(next));
}

void Departure::on_relinked(MemberId member) {
  if (!leaving_ || !leaving_->quiet.load(std::memory_order_relaxed)) return;
  if (host_.is_sparse()) {
    next_closing_ = {};
    return;
  }
  host_.tell(member, FrameKind::kClosing, roster_.epoch);
}

void Departure::on_view() {
  settled_.clear();
  confirmed_.clear();
  let_go_ = false;
  ended_by_all_.reset();
  std::erase_if(probes_, [this](const auto& probe) {
    return !roster_.has(probe.first) || probe.second.epoch < roster_.epoch;
  });
  next_closing_ = {};
  next_probe_ = {};
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
  const bool sparse = host_.is_sparse();
  // Its sender has yet to learn who answers, or this member that it is the one.
  if (sparse && !is_asked()) return;
  // Hardly two leavers differ in what they have called.
  std::optional<OpSeq> next;
  std::vector<MemberId> lack;
  const auto have_others = [&](MemberId leaver, OpSeq called) {
    if (next != called) lack = who_lack(*(next = called));
    return lack.empty() || (lack.size() == 1 && lack.front() == leaver);
  };
  std::erase_if(leavers_, [&](const auto& leaver) {
    const auto& [member, wants] = leaver;
    if (roster_.has_gone(member)) return true;
    if (!has_ended(wants)) return false;
    if (sparse && !have_others(member, wants.next)) return false;
    host_.tell(member, FrameKind::kSettled, wants.epoch);
    return true;
  });
}

}  // namespace holdfast::group
