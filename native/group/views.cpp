// How a group goes from one view to the next.
#include <algorithm>

#include "base/planted.h"

#include "group/group.h"
#include "group/schedule.h"
#include "group/world.h"

namespace holdfast::ft {
namespace {

using comm::OpWork;

const OpReport* find_report(const GroupReport& report, std::uint64_t sequence) {
  const auto at = std::find_if(report.ops.begin(), report.ops.end(),
                               [&](const OpReport& op) { return op.sequence.value == sequence; });
  return at == report.ops.end() ? nullptr : &*at;
}

}  // namespace

void Group::publish_view(Epoch epoch) {
  const std::lock_guard lock(mutex_);
  view_ = {epoch, config_.members};
}

std::vector<Rank> Group::world_ranks_present() const {
  std::vector<Rank> ranks;
  ranks.reserve(present_.size());
  for (const Rank rank : present_) {
    ranks.push_back(config_.world_ranks[static_cast<std::size_t>(rank.value)]);
  }
  return ranks;
}

void Group::publish_placement() {
  const std::vector<int> hosts = world_->hosts(world_ranks_present());
  const int last = hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end());
  std::vector<int> by_rank(config_.members.size(), -1);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    by_rank[static_cast<std::size_t>(present_[i].value)] = hosts[i];
  }
  const std::lock_guard lock(mutex_);
  hosts_ = std::move(by_rank);
  placement_ = {static_cast<int>(view_.members.size()), last + 1,
                shares_memory_.load(std::memory_order_relaxed)};
  boundary_ = epoch_;
}

void Group::on_revoke(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
  if (epoch == epoch_ && entrance_) enter_view();
  if (const auto rank = view_rank_of(from, epoch)) comm_->on_revoke(*rank, payload);
}

void Group::on_call(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
  if (const auto rank = view_rank_of(from, epoch)) comm_->on_call(*rank, payload);
}

void Group::on_missed(Rank rank, const Status& why) {
  const Rank in_group = present_[static_cast<std::size_t>(rank.value)];
  const MemberId member = config_.members[static_cast<std::size_t>(in_group.value)];
  if (world_->id() == config_.id || why.message() != "the peer left") {
    missed_.push_back(member);
    return;
  }
  // It left this group, but may well be in others: the world has nothing to decide.
  comm_->end_view({Code::kPeerLost, {in_group}, why.message()});
}

GroupReport Group::stop() {
  if (entered() != nullptr) {
    for (comm::Stopped& stopped : comm_->interrupt()) {
      const auto at = ops_.find(stopped.work->sequence().value);
      if (at == ops_.end() || at->second.work != stopped.work) continue;
      Op& op = at->second;
      op.complete = op.complete || stopped.complete;
      if (is_planted(Planted::kForgetHeld)) stopped.held.clear();
      for (HeldBlock& block : held_blocks(op.work->request(), config_.rank, stopped.held)) {
        op.held[block.block].add(block.held);
      }
    }
    previous_ = std::move(comm_);
  }
  return describe_self();
}

GroupReport Group::describe_self() const {
  GroupReport report;
  report.group = std::make_shared<const GroupIdentity>(
      GroupIdentity{config_.id, config_.name, config_.world_ranks, shares_memory_, config_.whole});
  report.next_sequence = launched_;
  report.shared = shared_;
  if (const Status ended = health(); !ended.is_ok()) {
    report.failure = ended.code();
    report.failed_ranks = ended.ranks();
    report.failure_text = ended.message();
  }
  for (const FlatEnd& end : flat_ends_) {
    report.ops.push_back({end.call.sequence, true, true, end.epoch, {}});
  }
  for (const auto& [sequence, kept] : kept_) {
    report.ops.push_back({{sequence}, true, false, kept.completed_in, {}});
  }
  for (const auto& [sequence, op] : ops_) {
    OpReport said{{sequence}, op.complete, false, op.fate->epoch, {}};
    for (const auto& [block, held] : op.held) {
      if (!op.complete) said.held.push_back({block, held});
    }
    report.ops.push_back(std::move(said));
  }
  return report;
}

void Group::take_members(const NextView& next) {
  const std::vector<MemberId> before = std::exchange(config_.members, next.members);
  config_.world_ranks = next.world_ranks;
  epoch_ = next.epoch;
  present_.clear();
  for (std::size_t r = 0; r < config_.members.size(); ++r) {
    if (config_.members[r] != kNobody) present_.push_back({static_cast<std::int32_t>(r)});
  }
  for (std::size_t r = 0; r < before.size() && r < areas_.size(); ++r) {
    if (before[r] != config_.members[r]) areas_[r].segment.reset();
  }
  seat_messages(seated_, next.epoch);
  seated_ = config_.members;
  settled_.clear();
  next_closing_ = {};
  std::erase_if(left_, [this](MemberId member) { return !has_member(member); });
  note_leavers();
  std::erase_if(gone_, [this](const auto& gone) { return !has_member(gone.first); });
  publish_view(next.epoch);
}

void Group::begin_view(const NextView& next) {
  take_members(next);
  if (config_.newcomer) shares_memory_ = next.may_share;
  publish_placement();
  entrance_.emplace();
  agree_on_memory(next.may_share, {});
  if (!sharing_.is_under_way()) enter_view();
}

void Group::adopt(const NextView& next, const GroupReports& reports) {
  if (!health().is_ok()) return;
  if (entrance_ || comm_) [[maybe_unused]]
    const auto unused = stop();
  const std::vector<MemberId> before = config_.members;
  const std::vector<Rank> before_ranks = present_;
  take_members(next);
  std::vector<Rank> lost;
  for (const Rank rank : before_ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (config_.members[r] != before[r]) lost.push_back(rank);
  }
  if (config_.on_peer_loss == comm::PeerLoss::kRaise && !lost.empty()) {
    broken_ = Status(Code::kPeerLost,
                     "a member was lost (option on_peer_loss=raise); call advance() to go on "
                     "without it, or make a group of the survivors")
                  .about(lost, next.epoch);
  }
  for (const auto& [member, report] : reports) {
    if (report->failure == Code::kOk || report->failure == Code::kNotMember) continue;
    make_communicator();
    return fail(
        Status(report->failure, report->failure_text).about(report->failed_ranks, next.epoch));
  }
  joined_.clear();
  for (const Rank rank : present_) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (r >= before.size() || before[r] != config_.members[r]) joined_.push_back(rank);
  }
  if (next.boundary) {
    if (!joined_.empty()) shares_memory_ = next.may_share;
    publish_placement();
    pass_boundary(reports);
    entrance_.emplace();
  } else {
    entrance_ = Entrance{true, reports, before_ranks, before};
  }
  agree_on_memory(next.may_share, reports);
  if (!sharing_.is_under_way()) enter_view();
}

// Nothing is under way, and all hold all results; what was called since begins with the view. The
// members' counts, which may differ where ops failed, meet.
void Group::pass_boundary(const GroupReports& reports) {
  broken_ = Status::ok();
  kept_.clear();
  flat_ends_.clear();
  for (const auto& [member, report] : reports) {
    launched_ = std::max(launched_, report->next_sequence);
  }
  {
    const std::lock_guard lock(mutex_);
    next_sequence_ = std::max(next_sequence_, launched_);
  }
}

// Judges every op that anybody reported, in order; then come those that nobody knew of.
void Group::settle(const GroupReports& reports, const std::vector<Rank>& before,
                   const std::vector<MemberId>& members_before) {
  std::map<Rank, const GroupReport*> by_rank;
  std::map<std::uint64_t, std::shared_ptr<Incident>> incidents;
  for (const auto& [member, report] : reports) {
    const auto rank = rank_of(member);
    if (rank && report->failure == Code::kOk) by_rank[*rank] = report.get();
  }
  std::vector<Rank> survivors;
  for (const Rank rank : before) {
    const auto r = static_cast<std::size_t>(rank.value);
    if (config_.members[r] == members_before[r]) survivors.push_back(rank);
  }
  for (const auto& [rank, report] : by_rank) {
    for (const OpReport& op : report->ops) {
      if (incidents.contains(op.sequence.value)) continue;
      Incident incident{epoch_, before, survivors, {}, false};
      for (const Rank survivor : survivors) {
        const auto by = by_rank.find(survivor);
        const OpReport* said =
            by == by_rank.end() ? nullptr : find_report(*by->second, op.sequence.value);
        incident.reports.push_back(said == nullptr ? std::nullopt : std::optional(*said));
        const bool called = by != by_rank.end() && op.sequence.value < by->second->next_sequence;
        incident.settled = incident.settled || (called && said == nullptr);
      }
      incidents[op.sequence.value] = std::make_shared<Incident>(std::move(incident));
    }
  }
  // Ops whose callers have all gone: whoever calls them later, or has done so since it reported,
  // must know of this view's losses, too.
  auto unknown = std::make_shared<Incident>(Incident{epoch_, before, survivors, {}, false});
  unknown->reports.resize(survivors.size());
  for (auto& [sequence, planned] : incidents_) {
    if (!incidents.contains(sequence)) planned.push_back(unknown);
  }
  for (const auto& [sequence, op] : ops_) {
    if (!op.fate->contributors.empty()) incidents.emplace(sequence, unknown);
  }
  std::vector<std::uint64_t> sequences;
  sequences.reserve(incidents.size() + ops_.size());
  for (const auto& [sequence, incident] : incidents) sequences.push_back(sequence);
  for (const auto& [sequence, op] : ops_) {
    if (!incidents.contains(sequence)) sequences.push_back(sequence);
  }
  std::sort(sequences.begin(), sequences.end());
  for (const std::uint64_t sequence : sequences) {
    const auto at = incidents.find(sequence);
    if (at != incidents.end()) {
      settle_op({sequence}, at->second);
    } else {
      begin(ops_.at(sequence));
    }
  }
}

void Group::settle_op(OpSeq sequence, const std::shared_ptr<Incident>& incident) {
  const std::uint64_t number = sequence.value;
  const auto at = ops_.find(number);
  if (incident->settled) {
    // No longer part of anybody's log: not all could write it there.
    kept_.erase(number);
    if (at == ops_.end()) return;
    if (at->second.complete) return end(at->second.work, Status::ok());
    // Whoever ended it without this rank ended it badly.
    OpFate fate = *at->second.fate;
    fate.lost = true;
    at->second.fate = std::make_shared<const OpFate>(std::move(fate));
    return begin(at->second);
  }
  if (at != ops_.end()) return settle_own(at->second, *incident);
  for (const FlatEnd& end : flat_ends_) {
    if (end.call.sequence == sequence) return comm_->note_call(end.call);
  }
  const auto kept = kept_.find(number);
  if (kept == kept_.end()) {
    incidents_[number].push_back(incident);
    return;
  }
  // Most are never asked for. Those that are serve by a work of their own in each view.
  const std::shared_ptr<OpWork> served = new_work(kept->second.request, sequence);
  // From where it ended, through every view since: as those see it that have not ended it.
  const Fate fate = kept->second.fate = std::make_shared<const OpFate>(
      judge(is_planted(Planted::kFreshKept) ? fate_of(*incident) : *kept->second.fate, *served,
            *incident));
  if (!incident->all_complete() && !fate->lost) {
    return begin_repair(served, *fate, clock_->now() + served->request().timeout);
  }
  comm_->note_call(call_of(served->request(), sequence));
  kept_.erase(kept);
}

// An op that has not ended here.
void Group::settle_own(Op& op, const Incident& incident) {
  const std::shared_ptr<OpWork> work = op.work;
  const OpFate before = op.fate->contributors.empty() ? fate_of(incident) : *op.fate;
  op.fate = std::make_shared<const OpFate>(judge(before, *work, incident));
  if (incident.all_complete()) {
    comm_->note_call(call_of(work->request(), work->sequence()));
    return end(work, Status::ok());
  }
  if (op.fate->finish_flat) return finish_on_flat(op);
  begin(op);
}

// Everybody had published: what somebody has read, everybody can still read.
void Group::finish_on_flat(Op& op) {
  const std::shared_ptr<OpWork> work = op.work;
  std::shared_ptr<const comm::OpRequest> request(work, &work->request());
  if (previous_ && previous_->config().ranks.size() != config_.members.size()) {
    request = std::make_shared<comm::OpRequest>(
        request_in_view(work->request(), previous_->config().ranks));
  }
  const bool ended = previous_ && previous_->finish_flat({work, request, op.deadline});
  const comm::Call call = call_of(work->request(), work->sequence());
  comm_->note_call(call);
  if (ended) {
    note_flat_end(call, op.fate->epoch);
    return end(work, Status::ok());
  }
  end(work, describe(*work, {Code::kProtocolError, "it ended elsewhere without this rank's part"}));
}

void Group::fence(const std::string& why) {
  if (comm_) {
    [[maybe_unused]] const auto stopped = stop();
  }
  fail({Code::kNotMember, why});
}

}  // namespace holdfast::ft
