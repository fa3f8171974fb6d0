#include "group/group.h"

#include <algorithm>

#include "comm/algorithms/catalogue.h"
#include "comm/call/request_check.h"
#include "group/world.h"

namespace holdfast::ft {

using comm::OpRequest;
using comm::OpWork;

Group::Group(GroupConfig config, std::shared_ptr<World> world,
             std::shared_ptr<comm::Executor> executor, std::shared_ptr<const Clock> clock)
    : config_(std::move(config)),
      world_(std::move(world)),
      executor_(std::move(executor)),
      clock_(std::move(clock)),
      observer_(world_->network().observer()),
      shares_memory_(config_.shares_memory),
      next_sequence_(config_.next_sequence),
      at_entrance_(config_.newcomer),
      view_{config_.epoch, config_.members},
      epoch_(config_.epoch),
      launched_(config_.next_sequence),
      areas_(std::move(config_.flat)),
      sharing_(config_.id, world_->membership().self(), world_->network()),
      messages_(config_.id, config_.rank, static_cast<int>(config_.members.size())) {}

Group::~Group() { CHECK(ops_.empty()); }

int Group::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(view_.members.size());
}

comm::View Group::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

std::vector<Rank> Group::live_ranks() const {
  const std::lock_guard lock(mutex_);
  std::vector<Rank> ranks;
  for (std::size_t r = 0; r < view_.members.size(); ++r) {
    if (view_.members[r] != kNobody) ranks.push_back({static_cast<std::int32_t>(r)});
  }
  return ranks;
}

comm::Placement Group::placement() const {
  const std::lock_guard lock(mutex_);
  return placement_;
}

std::vector<int> Group::hosts() const {
  const std::lock_guard lock(mutex_);
  return hosts_;
}

Epoch Group::boundary() const {
  const std::lock_guard lock(mutex_);
  return boundary_;
}

std::vector<std::string> Group::transports() const {
  std::vector<std::string> names(config_.members.size(), "none");
  if (!comm_ && !entrance_) return names;
  for (const Rank rank : present_) {
    const auto r = static_cast<std::size_t>(rank.value);
    names[r] =
        rank == config_.rank ? "self" : world_->links_to(config_.members[r]).data->transport();
  }
  return names;
}

Status Group::health() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::optional<Rank> Group::rank_of(MemberId member) const {
  const auto at = std::find(config_.members.begin(), config_.members.end(), member);
  if (member == kNobody || at == config_.members.end()) return std::nullopt;
  return Rank{static_cast<std::int32_t>(at - config_.members.begin())};
}

std::optional<Rank> Group::view_rank_of(MemberId member, Epoch epoch) const {
  const auto rank = rank_of(member);
  if (!rank || !comm_ || epoch != epoch_) return std::nullopt;
  const auto at = std::find(present_.begin(), present_.end(), *rank);
  if (at == present_.end()) return std::nullopt;
  return Rank{static_cast<std::int32_t>(at - present_.begin())};
}

Result<std::shared_ptr<comm::Work>> Group::start(OpRequest request) {
  if (request.algorithm.empty() && !request.codec &&
      comm::find_algorithm(request.collective, config_.algorithm) != nullptr) {
    request.algorithm = config_.algorithm;
  }
  const int size = this->size();
  if (Status status = comm::check_request(request, config_.rank, size); !status.is_ok()) {
    return status;
  }
  if (request.timeout == Duration::zero()) request.timeout = config_.timeout;
  const bool wake = !request.how.expect_wait;
  const std::lock_guard lock(mutex_);
  if (closed_) return Status{Code::kNotMember, "group " + name() + " is closed"};
  if (advancing_) {
    return Status{Code::kConfigError, "group " + name() + ": " +
                                          std::string(comm::collective_name(request.collective)) +
                                          " while advance() is under way; wait for it first"};
  }
  at_entrance_ = at_entrance_ && request.how.at_entrance;
  // Apart: a message concerns two ranks, and the number of a collective must be the same on all.
  const bool message = comm::is_point_to_point(request.collective);
  std::uint64_t& next = message ? next_message_ : next_sequence_;
  if (config_.protect && !shares_memory_.load(std::memory_order_relaxed) &&
      comm::carried_as(request, size)) {
    request = comm::replicated_by(std::move(request), replicated_.take(), config_.rank, size);
  }
  auto work = new_work(std::move(request), OpSeq{next++});
  if (!wake) work->tell_wait(comm::OtherWait::kWhole);
  if (observer_ != nullptr) work->ticket().enqueued = clock_->now();
  executor_->submit([self = shared_from_this(), work] { self->enter(work); }, wake);
  return std::shared_ptr<comm::Work>(work);
}

std::shared_ptr<OpWork> Group::new_work(OpRequest request, OpSeq sequence) const {
  return std::allocate_shared<OpWork>(RecyclingAllocator<OpWork>(recycler_), std::move(request),
                                      sequence, executor_, clock_);
}

bool Group::is_newcomer() const {
  const std::lock_guard lock(mutex_);
  return at_entrance_;
}

bool Group::progress(Instant now) {
  bool moved = !line_.empty() && pass_line(now);
  moved = messages_.progress(now) || moved;
  end_messages();
  if (entrance_) look_at_entrance(now);
  if (comm_) {
    moved = comm_->progress(now) || moved;
  } else {
    fail_stopped(now);
  }
  if (advance_) check_advance(now);
  if (!leavers_.empty()) answer_leavers();
  if (leaving_) look_at_leaving(now);
  if (observer_ != nullptr && now >= next_watch_) observe_waits(now);
  return moved;
}

void Group::end_messages() {
  messages_.take_ended(ended_messages_);
  for (auto& ended : ended_messages_) {
    end(ended.work, ended.status.is_ok() ? ended.status : describe(*ended.work, ended.status));
  }
  ended_messages_.clear();
  // As with a collective: whoever gave up on a message has lost its place in the program.
  if (const auto failure = messages_.take_failure()) {
    const comm::ViewNotice notice{failure->status.code(), failure->status.ranks(),
                                  op_text(*failure->work) + ": " + failure->status.message()};
    if (comm::ViewCommunicator* comm = entered()) return comm->end_view(notice);
    fail(failure->status);
  }
}

comm::MemoryPoll Group::poll_memory() {
  if (!comm_ || advance_ || !line_.empty() || messages_.busy() || has_missed()) return {};
  if (leaving_ || !leavers_.empty()) return {};
  return comm_->poll_memory();
}

bool Group::moves_bulk() const { return messages_.moves_bulk() || (comm_ && comm_->moves_bulk()); }

Instant Group::next_deadline() const {
  Instant next = messages_.next_deadline();
  if (asks_to_leave()) next = std::min(next, next_closing_);
  if (!line_.empty()) next = std::min({next, line_.front().deadline, next_gate_look_});
  if (comm_) return std::min(next, comm_->next_deadline());
  for (const auto& [sequence, op] : ops_) next = std::min(next, op.deadline);
  if (advance_) next = std::min(next, advance_->deadline);
  return next;
}

// Between two views nobody else watches the time.
void Group::fail_stopped(Instant now) {
  for (const auto& [sequence, op] : ops_) {
    if (now < op.deadline) continue;
    const std::string blocked = world_->membership().blocked();
    const Status late(Code::kTimeout,
                      "the timeout passed (option timeout) while the members could not agree on "
                      "the next view" +
                          (blocked.empty() ? "" : ": " + blocked));
    return fail(late);
  }
}

void Group::on_view_failed(const Status& status) { fail(status); }

void Group::fail(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!ended_.is_ok()) return;
    ended_ = status;
  }
  entrance_.reset();
  sharing_.stop();
  observe_failure(status);
  while (!ops_.empty()) {
    const std::shared_ptr<OpWork> work = ops_.begin()->second.work;
    end(work, describe(*work, status));
  }
  for (const Waiting& waiting : std::exchange(line_, {})) {
    end(waiting.work, describe(*waiting.work, status));
  }
  if (advance_) end_advance(status);
  messages_.fail_all(status);
  end_messages();
  kept_.clear();
  flat_ends_.clear();
  if (previous_) previous_->abandon();
}

std::string Group::op_text(const OpWork& work) const {
  const comm::Call call = call_of(work.request(), work.sequence());
  return std::string(comm::collective_name(call.collective)) + " #" +
         std::to_string(work.sequence().value) + " of group " + name();
}

Status Group::describe(const OpWork& work, const Status& cause, Epoch epoch) const {
  std::vector<Rank> ranks = cause.ranks();
  std::string text = op_text(work) + " (epoch " + std::to_string(epoch.value) + ", rank " +
                     std::to_string(config_.rank.value) + " of " +
                     std::to_string(config_.members.size()) + ") failed";
  if (cause.code() == Code::kPeerLost && !ranks.empty()) text += ": lost " + comm::rank_list(ranks);
  text += ": " + cause.message();
  return Status(cause.code(), std::move(text)).about(std::move(ranks), epoch);
}

void Group::abort(const std::string& reason) {
  const comm::ViewNotice notice{Code::kAborted, {config_.rank}, "aborted: " + reason, {}};
  executor_->submit(
      [self = shared_from_this(), notice] {
        if (comm::ViewCommunicator* comm = self->entered()) return comm->end_view(notice);
        self->fail(Status(notice.code, notice.text).about(notice.ranks, self->epoch_));
      },
      true);
}

}  // namespace holdfast::ft
