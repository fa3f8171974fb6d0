// How a communicator's view ends: which members have gone, which ops wait too long, which calls do
// not match, and what the members tell each other about it.
#include <algorithm>

#include "base/patience.h"
#include "comm/view/view_communicator.h"

namespace holdfast::comm {
namespace {

// Members answer from their progress threads, within a round trip; one that is stopped must not
// hold the others up.
constexpr Duration kReportTime = std::chrono::milliseconds(300);

}  // namespace

std::vector<Rank> ViewCommunicator::group_ranks(const std::vector<Rank>& ranks) const {
  std::vector<Rank> result;
  result.reserve(ranks.size());
  for (const Rank rank : ranks) result.push_back(group_rank(rank));
  return result;
}

void ViewCommunicator::on_gone(Rank rank, Status why) {
  Status& gone = gone_[static_cast<std::size_t>(rank.value)];
  if (!gone.is_ok()) return;
  gone = std::move(why);
  any_gone_ = true;
}

std::vector<Rank> ViewCommunicator::oldest_waits_for() const {
  if (active_.empty()) return {};
  return group_ranks(waited_for(active_.front()));
}

// What a departed peer had sent is still used: the peer is missed only when an op waits for it in
// vain.
bool ViewCommunicator::check_gone() {
  for (std::size_t r = 0; r < gone_.size(); ++r) {
    if (gone_[r].is_ok()) continue;
    if (data_links_[r] != nullptr && data_links_[r]->pump()) return true;
    const Rank rank{static_cast<int>(r)};
    for (const ActiveOp& active : active_) {
      const std::vector<Rank> waits = waited_for(active);
      if (std::find(waits.begin(), waits.end(), rank) == waits.end()) continue;
      if (config_.protect) {
        owner_.on_missed(rank, gone_[r]);
        return true;
      }
      fail_op(active, {gone_[r].code(), {group_rank(rank)}, gone_[r].message()});
      return true;
    }
  }
  return false;
}

void ViewCommunicator::check_deadlines(Instant now) {
  next_deadline_ = {Duration::max()};
  for (ActiveOp& active : active_) {
    if (now >= active.launch.deadline) return time_out(active);
    if (now >= active.stalls) tell_call(active);
    next_deadline_ = std::min(next_deadline_, active.stalls);
  }
}

void ViewCommunicator::time_out(const ActiveOp& active) {
  const double seconds = std::chrono::duration<double>(active.work().request().timeout).count();
  const std::vector<Rank> waits = group_ranks(waited_for(active));
  fail_op(active, {Code::kTimeout, waits,
                   "rank " + std::to_string(group_rank(config_.rank).value) +
                       " gave up when the timeout of " + std::to_string(seconds) +
                       " s had passed (option timeout), waiting for " +
                       (waits.empty() ? "nobody" : rank_list(waits))});
}

void ViewCommunicator::tell_call(ActiveOp& active) {
  active.stalls = active.launch.deadline;
  want_links(active);
  send_to_members(FrameKind::kCall,
                  encode_call(call_of(active.work().request(), active.work().sequence())));
}

void ViewCommunicator::on_call(Rank from, std::span<const std::byte> payload) {
  const auto call = decode_call(payload);
  if (!call.is_ok()) {
    return end_view({Code::kProtocolError, {group_rank(from)}, call.status().message()});
  }
  if (const auto differs = calls_.hear(from, call.value())) disagree(*differs);
}

void ViewCommunicator::disagree(const Disagreement& d) {
  const Rank self = group_rank(config_.rank);
  end_with_reports({Code::kProtocolError,
                    {self},
                    "calls do not match: ranks " + std::to_string(self.value) + " and " +
                        std::to_string(group_rank(d.with).value) + " differ in collective #" +
                        std::to_string(d.sequence.value) + " of group " + config_.name},
                   d.sequence);
}

// A notice about one op; its text gets the op's name. Where calls may be to blame, the members tell
// each other what they called before the view ends.
void ViewCommunicator::fail_op(const ActiveOp& active, ViewNotice notice) {
  notice.text = op_text(active.work()) + ": " + notice.text;
  const bool calls = notice.code == Code::kProtocolError || notice.code == Code::kTimeout;
  if (!calls) return end_view(notice);
  end_with_reports(std::move(notice), active.work().sequence());
}

void ViewCommunicator::send_to_members(FrameKind kind, const std::vector<std::byte>& payload) {
  for (std::size_t r = 0; r < config_.links.size(); ++r) {
    Link* control = config_.links[r].control;
    if (control == nullptr || !gone_[r].is_ok()) continue;
    control->session().send_control(kind, config_.id, config_.view.epoch, payload);
    control->pump();
  }
}

void ViewCommunicator::end_view(const ViewNotice& notice) {
  if (ended_) return;
  send_to_members(FrameKind::kRevoke, encode_notice(notice));
  fail_all(Status(notice.code, notice.text).about(notice.ranks, config_.view.epoch));
}

void ViewCommunicator::end_with_reports(ViewNotice notice, OpSeq sequence) {
  if (ending_ || ended_) return;
  notice.report = calls_.report(sequence);
  send_to_members(FrameKind::kRevoke, encode_notice(notice));
  Duration longest{};
  for (const MemberLinks& links : config_.links) {
    if (links.control == nullptr) continue;
    longest = std::max(longest, Duration(links.control->measured().round_trip_ns.value()));
  }
  Ending ending{std::move(notice), clock_->now() + patience(kReportTime, longest), {}};
  ending.reports.resize(gone_.size());
  ending.reports[static_cast<std::size_t>(config_.rank.value)] = ending.notice.report;
  next_deadline_ = ending.deadline;
  ending_ = std::move(ending);
}

// Reports again: the call in question came late, but in time.
void ViewCommunicator::report_again(OpSeq sequence) {
  if (sequence == ending_->notice.report->sequence) report_on(sequence);
}

void ViewCommunicator::report_on(OpSeq sequence) {
  ViewNotice& notice = ending_->notice;
  notice.report = calls_.report(sequence);
  ending_->reports[static_cast<std::size_t>(config_.rank.value)] = notice.report;
  send_to_members(FrameKind::kRevoke, encode_notice(notice));
}

bool ViewCommunicator::collect_reports(Instant now) {
  bool complete = true;
  for (std::size_t r = 0; r < gone_.size(); ++r) {
    const auto& report = ending_->reports[r];
    const bool called = report && report->find(ending_->notice.report->sequence) != nullptr;
    // Who has no link to this member says it to those that have one.
    const bool is_mute = unlinked_ > 0 && data_links_[r] == nullptr;
    complete = complete && (called || is_mute || !gone_[r].is_ok());
  }
  if (!complete && now < ending_->deadline) return false;
  const ViewNotice& notice = ending_->notice;
  const std::string text = notice.text + "; " + reports_text(ending_->reports, config_.ranks);
  fail_all(Status(notice.code, text).about(notice.ranks, config_.view.epoch));
  return true;
}

// The notice is passed on to all members: else a member that hears it late would take one that
// heard it early, and left, for the lost one.
void ViewCommunicator::on_revoke(Rank from, std::span<const std::byte> payload) {
  auto notice = decode_notice(payload, config_.group_size);
  if (!notice.is_ok()) {
    notice = ViewNotice{Code::kProtocolError, {group_rank(from)}, "malformed view notice"};
  }
  ViewNotice& n = notice.value();
  // To the others, the member that aborts is lost.
  if (n.code == Code::kAborted) n = {Code::kPeerLost, {group_rank(from)}, n.text};
  if (!n.report) return end_view(n);
  const CallReport report = *n.report;
  end_with_reports(std::move(n), report.sequence);
  if (!ending_) return;
  // Members may find out by different ops; all go by the first of those ops.
  if (report.sequence < ending_->notice.report->sequence) report_on(report.sequence);
  ending_->reports[static_cast<std::size_t>(from.value)] = report;
}

std::vector<Stopped> ViewCommunicator::interrupt() {
  if (config_.flat) advance_flat();
  std::vector<Stopped> result;
  result.reserve(active_.size());
  for (ActiveOp& active : active_) {
    Stopped stopped;
    stopped.work = active.launch.work;
    stopped.flat = active.stage == OpStage::kFlat;
    stopped.complete = active.stage == OpStage::kRound || active.stage == OpStage::kHeldBack;
    if (active.run) {
      if (!stopped.complete) stopped.held = active.run->held();
      runs_.end(*active.run);
      active.run.reset();
    }
    result.push_back(std::move(stopped));
  }
  // A stopped op of the flat exchange keeps its place there: others may have ended it.
  std::erase_if(active_, [](const ActiveOp& a) { return a.stage != OpStage::kFlat; });
  for (KeptRound& round : rounds_) {
    if (round.run) runs_.end(*round.run);
  }
  rounds_.clear();
  ending_.reset();
  ended_ = true;
  retire();
  return result;
}

void ViewCommunicator::fail_all(const Status& status) {
  if (ended_) return;
  ended_ = true;
  ending_.reset();
  std::vector<ActiveOp> failed;
  failed.swap(active_);
  for (ActiveOp& active : failed) {
    if (active.run) runs_.end(*active.run);
  }
  for (KeptRound& round : rounds_) {
    if (round.run) runs_.end(*round.run);
  }
  rounds_.clear();
  retire();
  owner_.on_view_failed(status);
}

void ViewCommunicator::retire() {
  for (Link* link : data_links_) {
    if (link != nullptr) link->session().retire(config_.id, config_.view.epoch);
  }
}

std::string ViewCommunicator::op_text(const OpWork& work) const {
  return std::string(collective_name(work.collective())) + " #" +
         std::to_string(work.sequence().value) + " of group " + config_.name;
}

}  // namespace holdfast::comm
