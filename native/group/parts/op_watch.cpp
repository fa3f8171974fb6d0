#include "group/parts/op_watch.h"

#include "topology/link_map.h"

namespace holdfast::group {
namespace {

using comm::OpWork;

// How often to ask which ranks an op waits for, and how long an op must have run to be asked: each
// time costs a pass over all steps of the op.
constexpr Duration kWatchPause = std::chrono::milliseconds(1);

bool is_old(const OpWork* work, Instant now) {
  return work != nullptr && work->ticket().number != 0 &&
         now - work->ticket().started >= kWatchPause;
}

}  // namespace

void OpWatch::began(OpWork& work, Epoch epoch, Instant now) {
  if (observer_ == nullptr) return;
  observer_->on_op_begun({group_, work.sequence(), epoch, self_, work.request()}, work.ticket(),
                         now);
}

void OpWatch::took_path(const OpWork& work, Epoch epoch) {
  if (observer_ == nullptr || work.ticket().number == 0) return;
  observer_->on_path_taken(work.ticket(), epoch);
}

void OpWatch::ended(OpWork& work, Code code, bool repaired) {
  comm::OpTicket& ticket = work.ticket();
  if (observer_ == nullptr || ticket.number == 0) return;
  const Instant now = clock_->now();
  if (number_ == ticket.number) {
    observer_->on_waited(ticket, ranks_, now - seen_);
    number_ = 0;
  }
  ticket.wait = work.waited();
  observer_->on_op_ended(ticket, code, repaired, now);
}

void OpWatch::began_inline(comm::OpTicket& ticket, const comm::OpRequest& request, OpSeq sequence,
                           Epoch epoch) {
  if (observer_ == nullptr) return;
  ticket.path = comm::OpPath::kFlat;
  observer_->on_op_begun({group_, sequence, epoch, self_, request}, ticket, clock_->now());
}

void OpWatch::ended_inline(comm::OpTicket& ticket) {
  if (observer_ == nullptr) return;
  ticket.wait.since = ticket.started;
  observer_->on_op_ended(ticket, Code::kOk, false, clock_->now());
}

void OpWatch::told_of_wait(comm::LongWait& wait, comm::WaitPhase phase, Epoch epoch) {
  if (observer_ == nullptr) return;
  const Instant now = clock_->now();
  if (phase == comm::WaitPhase::kBegins) {
    wait.ticket.path = comm::OpPath::kMessage;
    observer_->on_op_begun({group_, OpSeq{long_waits_++}, epoch, self_, wait.request}, wait.ticket,
                           wait.seen);
  }
  observer_->on_waited(wait.ticket, wait.peers, now - wait.seen);
  wait.seen = now;
  if (phase != comm::WaitPhase::kEnds) return;
  wait.ticket.wait.since = wait.ticket.started;
  observer_->on_op_ended(wait.ticket, Code::kOk, false, now);
}

const OpWork* OpWatch::choose(const OpWork* collective, const OpWork* message, Instant now) {
  next_look_ = now + kWatchPause;
  if (is_old(collective, now)) return collective;
  if (is_old(message, now)) return message;
  number_ = 0;
  return nullptr;
}

void OpWatch::waits(const OpWork& work, std::vector<Rank> world_ranks, Instant now) {
  const comm::OpTicket& ticket = work.ticket();
  const Instant since = number_ == ticket.number ? seen_ : ticket.started;
  ranks_ = std::move(world_ranks);
  observer_->on_waited(ticket, ranks_, now - since);
  number_ = ticket.number;
  seen_ = now;
}

void OpWatch::began_view(const Roster& roster, const std::vector<comm::MemberLinks>& links) {
  if (observer_ == nullptr) return;
  for (std::size_t i = 0; i < roster.present.size(); ++i) {
    const Rank rank = roster.present[i];
    if (rank == roster.self) continue;
    const Rank world_rank = roster.world_ranks[static_cast<std::size_t>(rank.value)];
    if (links[i].data != nullptr) linked(world_rank, links[i]);
  }
}

void OpWatch::linked(Rank world_rank, const comm::MemberLinks& links) {
  if (observer_ == nullptr) return;
  observer_->on_linked(world_rank, *links.control);
  observer_->on_linked(world_rank, *links.data);
}

void OpWatch::named(const std::string& name) {
  if (observer_ != nullptr) observer_->on_group_named(group_, name);
}

void OpWatch::took_map(const std::string& name, const comm::TakenMap& taken) {
  if (observer_ == nullptr) return;
  comm::MapFacts facts;
  if (taken.map) {
    facts = {taken.version, taken.map->digest(), static_cast<std::uint32_t>(taken.map->size())};
  }
  observer_->on_map_taken({name, facts});
}

// Closing a group, or being voted out of it, is not its failure.
void OpWatch::failed(const Status& status) {
  if (observer_ == nullptr || status.code() == Code::kNotMember) return;
  observer_->on_standing(comm::Standing::kEnded);
}

}  // namespace holdfast::group
