// How a group goes from one view to the next, at a step boundary or at a loss, and what it does
// about its members' connections. A view begins its ops at once, or, where a rank has come in, when
// the members have agreed what memory they share (parts/view_memory.h).
#include <algorithm>

#include "group/group.h"
#include "group/world.h"

namespace holdfast::group {

std::shared_ptr<comm::Work> Group::advance(Duration timeout) {
  if (timeout == Duration::zero()) timeout = config_.timeout;
  auto step = std::make_shared<StepBoundary::PendingBoundary>();
  step->lobby = std::make_unique<std::uint64_t>(0);
  step->timeout = timeout;
  step->deadline = clock_->now() + timeout;
  std::shared_ptr<comm::OpWork> work;
  callers_.call_boundary([&](CallerState::Boundary how, OpSeq number) {
    step->work = work =
        std::make_shared<comm::OpWork>(StepBoundary::call(timeout), number, executor_, clock_);
    begin_boundary(how, number, step, timeout);
  });
  return work;
}

void Group::begin_boundary(CallerState::Boundary how, OpSeq number,
                           std::shared_ptr<StepBoundary::PendingBoundary> step, Duration timeout) {
  using How = CallerState::Boundary;
  if (how == How::kVote) {
    comm::OpRequest vote = StepBoundary::vote(*step->lobby, timeout);
    step->vote = std::make_shared<comm::OpWork>(std::move(vote), number, executor_, clock_);
    // A caller that waits for the boundary waits for the vote.
    step->vote->tell_wait(comm::OtherWait::kWhole);
  }
  const auto submitted = [self = shared_from_this(), how, step] {
    self->ask_for_turns();
    if (how == How::kVote) {
      const auto vote = step->vote;
      self->boundary_.begin(std::move(*step), self->world_->membership().lobby_version());
      return self->enter(vote);
    }
    const std::string group = "group " + self->name();
    if (how == How::kClosed) {
      return self->end(step->work, {Code::kNotMember, group + " is closed"});
    }
    if (how == How::kTwice) {
      return self->end(step->work, {Code::kConfigError,
                                    group + ": advance() was called twice at the same time"});
    }
    step->work->set_outcome(
        {self->roster_.epoch, self->roster_.present, {}, false, self->config_.joined});
    self->end(step->work, Status::ok());
  };
  executor_->submit(submitted, true);
}

void Group::after_vote(const Status& status) {
  using Next = StepBoundary::Next;
  const StepBoundary::Facts facts{config_.whole, !ops_.broken().is_ok(),
                                  world_->membership().admitted_version()};
  const Next next = boundary_.after_vote(status, facts);
  if (next == Next::kPass) callers_.keep_placement_of(boundary_.voters());
  if (next != Next::kAdmit) return end_boundary(status);
  if (world_->in_boundary()) {
    return end_boundary(
        {Code::kConfigError, "advance() of two groups of a world at the same time"});
  }
  world_->at_boundary([weak = weak_from_this()](const Status& passed) {
    if (const auto self = weak.lock()) self->end_boundary(passed);
  });
}

void Group::end_boundary(const Status& status) {
  if (!boundary_.is_under_way()) return;
  callers_.end_boundary();
  auto done = std::make_shared<StepBoundary::PendingBoundary>(boundary_.take());
  const std::shared_ptr<comm::OpWork> work = done->work;
  work->set_outcome({roster_.epoch, roster_.present, {}, false, std::exchange(roster_.joined, {})});
  work->settle(status);
  // The ending vote may still refer to the memory that it reduced.
  executor_->defer([done, work] { work->end(); });
}

std::optional<Rank> Group::view_rank_of(MemberId member, Epoch epoch) const {
  if (!comm_ || epoch != roster_.epoch) return std::nullopt;
  return roster_.place_of(member);
}

bool Group::refers_to(MemberId member) const {
  if (has_member(member)) return true;
  if (!entrance_ || !entrance_->change) return false;
  // The exchange of the last view may have results, and refers to the areas and bells of its
  // members.
  const std::vector<MemberId>& before = entrance_->change->members_before;
  return std::find(before.begin(), before.end(), member) != before.end();
}

void Group::begin_view(const NextView& next) {
  if (!dormant_) ask_for_turns();
  take_members(next);
  if (config_.newcomer) shares_memory_ = next.may_share;
  publish_placement();
  entrance_.emplace();
  if (config_.newcomer) {
    memory_.enter(next.may_share, {});
  } else {
    memory_.found();
  }
  if (dormant_) return memory_.leases()->take_early();
  if (!memory_.is_under_way()) enter_view();
}

void Group::adopt(const NextView& next, const GroupReports& reports) {
  if (!health().is_ok()) return;
  ask_for_turns();
  if (entrance_ || comm_) [[maybe_unused]]
    const auto unused = stop();
  const std::vector<MemberId> before = roster_.members;
  const std::vector<Rank> ranks_before = roster_.present;
  take_members(next);
  const std::vector<Rank> lost = roster_.lost(ranks_before, before);
  // Who has gone at a step boundary was to go, and no step is broken.
  if (config_.on_peer_loss == comm::PeerLoss::kRaise && !lost.empty() && !next.boundary) {
    ops_.set_broken(Status(Code::kPeerLost,
                           "a member was lost (option on_peer_loss=raise); call advance() to go on "
                           "without it, or make a group of the survivors")
                        .about(lost, next.epoch));
  }
  // Others have begun collectives: what they know of them concerns this member.
  if (!reports.empty()) dormant_ = false;
  if (ends_with(reports)) return;
  roster_.note_joined(before);
  note_first_call(reports);
  if (next.boundary) {
    if (!roster_.joined.empty()) shares_memory_ = next.may_share;
    publish_placement();
    pass_boundary(reports);
    entrance_.emplace();
  } else {
    entrance_ = Entrance{OpTable::Change{reports, ranks_before, before}};
  }
  memory_.enter(next.may_share, reports);
  if (dormant_) {
    entrance_.emplace();
    return;
  }
  memory_.lease();
  if (!memory_.is_under_way()) enter_view();
}

void Group::take_members(const NextView& next) {
  const std::vector<MemberId> before = roster_.members;
  roster_.take(next.epoch, next.members, next.world_ranks);
  memory_.take_view(before);
  const std::vector<MemberId> seated = std::exchange(seated_, roster_.members);
  seat_messages(seated);
  mail_.take_members(seated);
  departure_.on_view();
  callers_.set_view({next.epoch, roster_.members});
}

// Returns whether the group has ended at a member, and so ends here.
bool Group::ends_with(const GroupReports& reports) {
  for (const auto& [member, report] : reports) {
    if (report->failure == Code::kOk || report->failure == Code::kNotMember) continue;
    make_communicator();
    fail(Status(report->failure, report->failure_text).about(report->failed_ranks, roster_.epoch));
    return true;
  }
  return false;
}

// Nothing is under way, and all members hold all results; calls made since begin with the view. The
// members' counts, which may differ where ops failed, become one.
void Group::pass_boundary(const GroupReports& reports) {
  std::uint64_t first = 0;
  for (const auto& [member, report] : reports) first = std::max(first, report->next_sequence);
  ops_.meet_at(first);
  callers_.meet_at(ops_.first_uncalled());
}

void Group::publish_placement() {
  const std::vector<int> hosts = world_->hosts(roster_.world_ranks_present());
  const int last = hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end());
  std::vector<int> by_rank(roster_.members.size(), -1);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    by_rank[static_cast<std::size_t>(roster_.present[i].value)] = hosts[i];
  }
  callers_.set_placement(std::move(by_rank), last + 1,
                         shares_memory_.load(std::memory_order_relaxed), roster_.epoch);
}

GroupReport Group::stop() {
  if (dormant_) {
    entrance_.reset();
  } else if (entered() != nullptr) {
    ops_.note_stopped(comm_->interrupt());
    previous_ = std::move(comm_);
  }
  return describe_self();
}

GroupReport Group::describe_self() const {
  GroupReport report;
  report.group = std::make_shared<const GroupIdentity>(
      GroupIdentity{config_.id, config_.name, roster_.world_ranks, shares_memory_, config_.whole,
                    config_.derived, world_->in_boundary() ? maps_.latest().version : 0,
                    world_->in_boundary() ? maps_.latest().text : nullptr});
  report.next_sequence = ops_.first_uncalled();
  report.shared = memory_.shared();
  if (const Status ended = health(); !ended.is_ok()) {
    report.failure = ended.code();
    report.failed_ranks = ended.ranks();
    report.failure_text = ended.message();
  }
  ops_.report(report.ops);
  return report;
}

void Group::fence(const std::string& why) {
  ask_for_turns();
  if (comm_) {
    [[maybe_unused]] const auto stopped = stop();
  }
  fail({Code::kNotMember, why});
}

void Group::look_at_entrance(Instant now) {
  if (memory_.settle()) return enter_view();
  const std::vector<MemberId> awaited = memory_.awaited();
  // A member that has left says no more; an op that is late tells the others so. In both cases the
  // view goes on without shared memory.
  const bool in_vain = std::any_of(awaited.begin(), awaited.end(),
                                   [this](MemberId member) { return roster_.has_gone(member); });
  if (in_vain || ops_.is_late(now)) enter_view();
}

// The communicator of a view that has begun; the view no longer waits to learn what its members
// share, because they are told something or the view ends. Nothing: the group is stopped.
comm::ViewCommunicator* Group::entered() {
  if (entrance_) enter_view();
  return comm_.get();
}

void Group::enter_view() {
  dormant_ = false;
  const Entrance entrance = *std::exchange(entrance_, std::nullopt);
  memory_.stop();
  make_communicator();
  if (entrance.change) {
    ops_.settle(*entrance.change, {comm_.get(), previous_.get()});
  } else {
    ops_.begin_all(*comm_);
  }
  if (previous_) previous_->abandon();
  previous_.reset();
}

void Group::ring_all(std::vector<comm::HostPeer>& areas, Rank self) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t r = 0; r < areas.size(); ++r) {
    if (static_cast<int>(r) != self.value) areas[r].ring_published();
  }
}

void Group::make_communicator() {
  comm::CommunicatorConfig config;
  config.view = {roster_.epoch, roster_.members_present()};
  for (const Rank rank : roster_.present) {
    const bool own = rank == config_.rank;
    config.links.push_back(own ? comm::MemberLinks{} : world_->links_to(roster_.member(rank)));
  }
  std::vector<comm::HostPeer> areas = memory_.areas_present();
  config.id = config_.id;
  config.ranks = roster_.present;
  config.group_size = static_cast<int>(roster_.members.size());
  config.rank = roster_.own_place();
  config.name = config_.name;
  config.fabric = fabrics();
  config.plans = plans_;
  config.protect = config_.protect;
  if (!areas.empty() && areas.size() == roster_.present.size()) {
    config.flat.emplace(config.rank, roster_.epoch, areas);
    for (const auto lane : {comm::SliceLane::kBulk, comm::SliceLane::kSmall}) {
      config.slices.emplace_back(config.rank, roster_.epoch, areas, config_.slice_bytes, lane);
    }
    // Some may sleep until they see this member's lease.
    if (memory_.has_lease()) ring_all(areas, config.rank);
  }
  comm_ = std::make_unique<comm::ViewCommunicator>(std::move(config), *this, clock_);
  // Who of a sparse world's group ends its view tells its neighbours, and these tell theirs.
  if (!comm_->has_all_links()) {
    const MemberId self = world_->membership().self();
    for (const MemberId near : ft::near_members(roster_.members, self)) {
      world_->reach(near);
    }
  }
  plan_ahead();
  if (roster_.epoch == config_.epoch) watch_.named(config_.name);
  watch_.began_view(roster_, comm_->config().links);
  // The view may have lost more members since it was decided.
  for (const auto& [member, why] : roster_.gone) {
    if (const auto rank = view_rank_of(member, roster_.epoch)) comm_->on_gone(*rank, why);
  }
}

void Group::on_area(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
  ask_for_turns();
  if (health().is_ok()) memory_.hear(from, epoch, payload);
}

void Group::on_revoke(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
  ask_for_turns();
  if (epoch == roster_.epoch && entrance_) enter_view();
  if (const auto rank = view_rank_of(from, epoch)) comm_->on_revoke(*rank, payload);
}

void Group::on_call(MemberId from, Epoch epoch, std::span<const std::byte> payload) {
  ask_for_turns();
  if (const auto rank = view_rank_of(from, epoch)) comm_->on_call(*rank, payload);
}

void Group::on_missed(Rank rank, const Status& why) {
  const Rank in_group = roster_.present[static_cast<std::size_t>(rank.value)];
  if (world_->id() == config_.id || why.message() != "the peer left") {
    missed_.push_back(roster_.member(in_group));
    return;
  }
  // The member left this group, but may well be in others: the world has nothing to decide.
  comm_->end_view({Code::kPeerLost, {in_group}, why.message()});
}

void Group::seat_messages(const std::vector<MemberId>& before) {
  messages_.resize(static_cast<int>(roster_.members.size()));
  for (std::size_t r = 0; r < roster_.members.size(); ++r) {
    const MemberId member = roster_.members[r];
    const Rank rank{static_cast<std::int32_t>(r)};
    if (r < before.size() && before[r] == member) continue;
    if (rank == config_.rank || member == ft::kNobody) {
      messages_.seat(rank, nullptr, roster_.epoch);
    } else {
      comm::Link* link = world_->links_to(member).data;
      messages_.seat(rank, link, roster_.epoch);
      if (link == nullptr) messages_.await_link(rank);
      for (const auto& said : early_notices_.take(member)) on_sent(member, said);
    }
  }
  end_messages();
}

void Group::on_died(MemberId member, const Status& why) {
  const auto rank = roster_.rank_of(member);
  if (!rank) return;
  ask_for_turns();
  // The member's goodbye came before: the end of its connections is no death.
  const bool left = roster_.has_gone(member);
  messages_.on_gone(*rank, !left, why);
  mail_.on_gone(*rank, !left, why);
  roster_.gone.emplace_back(member, why);
  if (config_.protect || !comm_) return;
  const auto view_rank = view_rank_of(member, roster_.epoch);
  if (view_rank) comm_->on_gone(*view_rank, why);
}

void Group::on_goodbye(MemberId member) {
  const auto rank = roster_.rank_of(member);
  if (!rank) return;
  ask_for_turns();
  const Status why(Code::kPeerLost, "the peer left");
  messages_.on_gone(*rank, false, why);
  mail_.on_gone(*rank, false, why);
  roster_.gone.emplace_back(member, why);
  roster_.left.insert(member);
  const auto view_rank = view_rank_of(member, roster_.epoch);
  if (view_rank) comm_->on_gone(*view_rank, why);
}

}  // namespace holdfast::group
