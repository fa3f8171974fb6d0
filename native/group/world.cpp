#include "group/world.h"

#include <algorithm>

#include "base/planted.h"
#include "group/admission.h"

namespace holdfast::group {
namespace {

// While a group is made its world may pass through views; no process is so slow as to miss more
// than this.
constexpr std::size_t kPastViews = 64;

// Pause between two looks at lingering groups, where this process waits for them alone.
constexpr Duration kReapPause = std::chrono::milliseconds(1);

// Those of `members` that are in `before` at the same rank.
std::vector<MemberId> still_there(std::vector<MemberId> members,
                                  const std::vector<MemberId>& before) {
  for (std::size_t r = 0; r < members.size(); ++r) {
    if (members[r] != before[r]) members[r] = ft::kNobody;
  }
  return members;
}

}  // namespace

World::World(CommId id, ft::Membership membership, Network& network)
    : id_(id),
      self_(membership.self()),
      network_(network),
      membership_(std::move(membership)),
      news_(network) {
  past_.push_back({view(), {}, false, {}});
  news_.on_view({view(), view(), rank_of(self_).value_or(Rank{-1})}, Instant{});
}

World::World(const ft::Message& decision, ft::Membership membership, Network& network)
    : World(decision.world, std::move(membership), network) {
  past_.front().reports = decode_reports(decision.reports);
  past_.front().by_group = by_group(past_.front().reports);
  past_.front().boundary = true;
}

std::optional<Rank> World::rank_of(MemberId member) const {
  const auto& members = view().members;
  const auto at = std::find(members.begin(), members.end(), member);
  if (member == ft::kNobody || at == members.end()) return std::nullopt;
  return Rank{static_cast<std::int32_t>(at - members.begin())};
}

const ft::WorldView* World::view_at(Epoch epoch) const {
  const auto at = std::find_if(past_.begin(), past_.end(),
                               [&](const Past& past) { return past.view.epoch == epoch; });
  return at == past_.end() ? nullptr : &at->view;
}

bool World::has_all(const std::vector<MemberId>& members) const {
  return std::all_of(members.begin(), members.end(),
                     [&](MemberId m) { return m == ft::kNobody || view().has(m); });
}

void World::add(const std::shared_ptr<Group>& group, Instant now) {
  turned_ = now;
  groups_.forget_gone(derived());
  groups_.add(group);
  if (!group->config().derived) entered_.insert(group->id());
  if (groups_.has_lingering()) reap(now);
  const Epoch first = group->config().epoch;
  if (membership_.fenced()) return group->fence("this process was voted out of its world");
  // The view has not come yet: it comes with its decision.
  if (first > view().epoch) return;
  for (const Past& past : past_) {
    if (past.view.epoch >= first) give_view(*group, past);
  }
  // The view is about to end: the others stop this group, too.
  if (membership_.changing()) membership_.reported(stop_groups(), now);
  carry_out(now);
  if (!std::exchange(has_groups_, true)) look_at_contacts(now);
}

void World::linger(std::shared_ptr<Group> group, Instant now) {
  if (ended_) return group->drop(false);
  groups_.linger(std::move(group));
  reap(now);
}

// A process that has ended, or has said goodbye, needs nothing more; one that was voted out, and
// may live, still reads.
void World::reap(Instant now) {
  next_reap_ = now + kReapPause;
  using State = ft::Contact::ContactState;
  groups_.reap([&](MemberId member) {
    if (!view().has(member) && !membership_.is_at_large(member)) return false;
    if (membership_.has_left(member)) return false;
    const State state = network_.contact_of(member, now).state;
    return state != State::kGone && state != State::kLeft;
  });
}

bool World::progress(Instant now) {
  turned_ = now;
  if (now >= membership_.next_tick()) membership_.tick(now);
  bool moved = false;
  bool asleep = false;
  entering_ = false;
  const bool gone = groups_.each_awake([&](Group& group) {
    moved = group.progress(now) || moved;
    entering_ = entering_ || group.is_entering();
    asleep = asleep || !group.needs_turns();
    if (!group.has_missed()) return;
    for (const MemberId member : group.take_missed()) membership_.on_missed(member, now);
    moved = true;
  });
  if (asleep || gone) groups_.let_sleep();
  groups_.forget_gone(derived());
  if (groups_.has_lingering()) reap(now);
  news_.progress(now);
  if (boundary_ && !boundary_->sent) look_at_boundary(now);
  if (membership_.has_actions() || !actions_.empty()) {
    carry_out(now);
    moved = true;
  }
  return moved;
}

comm::MemoryPoll World::poll_memory() {
  comm::MemoryPoll all{false, !is_changing()};
  groups_.each_awake([&](Group& group) {
    const comm::MemoryPoll poll = group.poll_memory();
    all = {all.moved || poll.moved, all.enough && poll.enough};
  });
  return all;
}

bool World::busy() const {
  bool busy = membership_.changing() || boundary_.has_value();
  groups_.each_awake([&](const Group& group) { busy = busy || group.busy(); });
  return busy;
}

bool World::moves_bulk() const {
  bool bulk = false;
  groups_.each_awake([&](const Group& group) { bulk = bulk || group.moves_bulk(); });
  return bulk;
}

Instant World::next_deadline() const {
  Instant next = std::min(membership_.next_tick(), news_.next_deadline());
  groups_.each_awake([&](const Group& group) { next = std::min(next, group.next_deadline()); });
  if (awaits_lingering_ && groups_.has_lingering()) next = std::min(next, next_reap_);
  return next;
}

void World::on_message(MemberId from, const ft::Message& message, Instant now) {
  membership_.on_message(from, message, now);
  carry_out(now);
}

std::vector<Rank> World::ranks_at_large() const {
  std::vector<Rank> ranks;
  for (const auto& [outcast, rank, card] : membership_.at_large()) ranks.push_back(rank);
  return ranks;
}

void World::await_outcasts(Instant now) {
  membership_.await_outcasts(now);
  carry_out(now);
}

// Groups that were made of the world may go on.
void World::retire() {
  if (groups_.count() == 1) membership_.retire();
}

void World::leave(Instant now) {
  ended_ = true;
  groups_.drop_lingering();
  news_.end(now);
  membership_.leave(now);
  carry_out(now);
}

void World::on_closed(MemberId member, const Status& why, Instant now) {
  news_.progress(now);
  for (const auto& group : groups()) group->on_died(member, why);
  // Nothing changes until an op misses the member; but a change that is under way waits for its
  // message.
  if (membership_.has_left(member) && !membership_.changing()) return;
  membership_.on_closed(member, now);
  carry_out(now);
}

void World::on_silent(MemberId member, Instant now) {
  news_.progress(now);
  membership_.on_silent(member, now);
  carry_out(now);
}

void World::on_heard(MemberId member, Instant now) {
  membership_.on_heard(member, now);
  carry_out(now);
}

void World::on_goodbye(MemberId member, CommId group, Instant now) {
  const bool whole = group == CommId{} || group == id_;
  if (whole) {
    membership_.on_left(member);
    news_.on_goodbye(member, view().has(member));
  }
  for (const auto& g : groups()) {
    if (group == CommId{} || g->id() == group) g->on_goodbye(member);
  }
  // A change that is under way waits for the member's message.
  if (!whole || !membership_.changing()) return;
  membership_.on_closed(member, now);
  carry_out(now);
}

void World::at_boundary(std::function<void(const Status&)> then) {
  CHECK(!boundary_);
  boundary_ = WorldBoundary{std::move(then), false};
}

// No group may begin an op between this member's message and the next view: the others could not
// tell whether the op was part of the last view. A view that has just begun is entered first:
// others wait to be told what memory this member shares.
void World::look_at_boundary(Instant now) {
  if (membership_.changing()) return;
  const auto all = groups();
  const auto rests = [](const auto& group) { return group->at_rest() && !group->is_entering(); };
  if (!std::all_of(all.begin(), all.end(), rests)) return;
  boundary_->sent = true;
  ft::Body reports =
      is_planted(Planted::kLateStop) ? encode(std::vector<GroupReport>{}) : stop_groups();
  membership_.at_boundary(membership_.lobby_version(), std::move(reports), now);
}

void World::end_boundary(const Status& status) {
  const auto then = std::move(boundary_->then);
  boundary_.reset();
  then(status);
}

void World::carry_out(Instant now) {
  if (carrying_out_) return;
  carrying_out_ = true;
  for (;;) {
    for (ft::Action& action : membership_.take_actions()) actions_.push_back(std::move(action));
    if (actions_.empty()) break;
    const auto* next = std::get_if<ft::Adopt>(&actions_.front());
    if (next != nullptr && !can_adopt(next->view, now)) break;
    const ft::Action action = std::move(actions_.front());
    actions_.pop_front();
    carry_out(action, now);
  }
  carrying_out_ = false;
}

void World::carry_out(const ft::Action& action, Instant now) {
  if (const auto* send = std::get_if<ft::SendTo>(&action)) {
    network_.send(send->to, send->message);
  } else if (std::holds_alternative<ft::StopFor>(action)) {
    if (!membership_.changing()) return;
    news_.on_stopped(now);
    membership_.reported(stop_groups(), now);
  } else if (const auto* next = std::get_if<ft::Adopt>(&action)) {
    adopt(*next, now);
    look_at_contacts(now);
  } else if (const auto* wanted = std::get_if<ft::Expect>(&action)) {
    for (const ft::Joiner& joiner : wanted->joiners) network_.expect(joiner);
  } else if (const auto* fenced = std::get_if<ft::Fenced>(&action)) {
    network_.say(fenced->why);
    news_.stands(comm::Standing::kVotedOut);
    for (const auto& group : groups()) group->fence(fenced->why);
    if (boundary_) end_boundary({Code::kNotMember, fenced->why});
  }
}

std::optional<GroupConfig> World::admitted(GroupConfig base) const {
  const Past& first = past_.front();
  return admission(std::move(base), {first.view, first.reports, entered_, self_, rank_of(self_)});
}

std::optional<GroupConfig> World::elastic(GroupConfig base) const {
  if (view().epoch.value > 1) return admitted(std::move(base));
  const auto self = rank_of(self_);
  if (!self) return std::nullopt;
  return founding(std::move(base), id_, view(), *self);
}

std::vector<int> World::hosts(const std::vector<Rank>& world_ranks) const {
  return number_hosts(words_.of(view(), network_), world_ranks);
}

bool World::refers_to(MemberId member) const {
  const auto all = groups();
  return view().has(member) || membership_.is_at_large(member) ||
         std::any_of(all.begin(), all.end(),
                     [&](const auto& group) { return group->refers_to(member); });
}

ft::Body World::stop_groups() {
  std::vector<GroupReport> reports;
  for (const auto& group : groups()) {
    GroupReport report = group->stop();
    if (!group->is_dormant()) reports.push_back(std::move(report));
  }
  return encode(reports);
}

void World::adopt(const ft::Adopt& adopt, Instant now) {
  news_.on_view({past_.back().view, adopt.view, rank_of(self_).value_or(Rank{-1}), adopt.boundary},
                now);
  Past past{adopt.view, decode_reports(adopt.reports), adopt.boundary, {}};
  past.by_group = by_group(past.reports);
  for (const auto& group : groups()) {
    if (group->config().epoch <= adopt.view.epoch) give_view(*group, past);
  }
  past_.push_back(std::move(past));
  if (past_.size() > kPastViews) past_.pop_front();
  if (!boundary_) return;
  if (adopt.boundary) return end_boundary(Status::ok());
  boundary_->sent = false;
}

void World::give_view(Group& group, const Past& past) {
  const GroupConfig& config = group.config();
  std::vector<Rank> ranks = group.roster().world_ranks;
  if (config.whole) ranks = all_ranks(std::move(ranks), past.view);
  std::vector<MemberId> members = members_of(ranks, past.view);
  // Whoever comes in later does not know of the derived groups of its rank.
  if (config.derived) members = still_there(std::move(members), group.roster().members);
  // A sparse world has no areas of all members: they would have to reach each other's bells.
  const bool may_share = !membership_.is_sparse() &&
                         group::may_share(past.view, words_.of(past.view, network_), ranks);
  const NextView next{past.view.epoch, std::move(members), std::move(ranks), past.boundary,
                      may_share};
  if (config.epoch == past.view.epoch) {
    group.begin_view(next);
    entering_ = entering_ || group.is_entering();
    return;
  }
  const auto said = past.by_group.find(config.id);
  group.adopt(next, said == past.by_group.end() ? GroupReports{} : said->second);
  entering_ = entering_ || group.is_entering();
}

}  // namespace holdfast::group
