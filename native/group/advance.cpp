// A group's step boundaries. The members first agree, with one small all-reduce, whether anybody
// has seen a newcomer that may be admitted; nearly always nobody has, and no coordinator is asked.
#include <algorithm>
#include <map>

#include "group/group.h"
#include "group/world.h"

namespace holdfast::ft {

using comm::OpWork;

std::shared_ptr<comm::Work> Group::advance(Duration timeout) {
  if (timeout == Duration::zero()) timeout = config_.timeout;
  Advance next;
  next.lobby = std::make_unique<std::uint64_t>(0);
  comm::OpRequest request;
  request.collective = comm::Collective::kAllReduce;
  request.dtype = DType::kU64;
  request.op = ReduceOp::kMax;
  auto* data = reinterpret_cast<std::byte*>(next.lobby.get());
  request.input = {{data, 1}};
  request.output = {{data, 1}};
  request.timeout = timeout;
  comm::OpRequest boundary;
  boundary.collective = comm::Collective::kBarrier;
  boundary.timeout = timeout;
  next.deadline = clock_->now() + timeout;
  const std::lock_guard lock(mutex_);
  next.work =
      std::make_shared<OpWork>(std::move(boundary), OpSeq{next_sequence_}, executor_, clock_);
  const std::shared_ptr<OpWork> work = next.work;
  if (closed_ || advancing_) {
    const Status refused{closed_ ? Code::kNotMember : Code::kConfigError,
                         "group " + name() +
                             (closed_ ? " is closed"
                                      : ": advance() was called "
                                        "twice at the same time")};
    executor_->submit([self = shared_from_this(), work, refused] { self->end(work, refused); },
                      true);
    return work;
  }
  if (at_entrance_) {
    // It came in at this boundary, or founds the group.
    at_entrance_ = false;
    executor_->submit(
        [self = shared_from_this(), work] {
          work->set_outcome({self->epoch_, self->present_, {}, false, self->config_.joined});
          self->end(work, Status::ok());
        },
        true);
    return work;
  }
  advancing_ = true;
  next.agreement =
      std::make_shared<OpWork>(std::move(request), OpSeq{next_sequence_++}, executor_, clock_);
  // Whoever waits for the boundary waits for it.
  next.agreement->tell_wait(comm::OtherWait::kWhole);
  auto shared = std::make_shared<Advance>(std::move(next));
  executor_->submit(
      [self = shared_from_this(), shared] {
        self->advance_ = std::move(*shared);
        *self->advance_->lobby = self->world_->membership().lobby_version();
        self->enter(self->advance_->agreement);
      },
      true);
  return work;
}

void Group::on_agreed(const Status& status) {
  // Subgroups have a step of their own; who comes in is the whole world's business.
  const bool admits = config_.whole && *advance_->lobby > world_->membership().admitted_version();
  const bool mends = config_.whole && !broken_.is_ok() && status.code() == Code::kPeerLost;
  if ((!status.is_ok() && !mends) || (status.is_ok() && !admits)) {
    if (status.is_ok()) keep_placement_of(advance_->agreement->outcome().contributors);
    return end_advance(status);
  }
  if (world_->in_boundary()) {
    return end_advance({Code::kConfigError, "advance() of two groups of a world at the same time"});
  }
  world_->at_boundary([weak = weak_from_this()](const Status& passed) {
    if (const auto self = weak.lock()) self->end_advance(passed);
  });
}

// Nobody has come in, but some may have gone: who agreed is alike on all.
void Group::keep_placement_of(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return;
  const std::lock_guard lock(mutex_);
  std::vector<int> kept(hosts_.size(), -1);
  std::map<int, int> numbers;
  for (const Rank rank : ranks) {
    const auto r = static_cast<std::size_t>(rank.value);
    const auto next = static_cast<int>(numbers.size());
    if (hosts_[r] >= 0) kept[r] = numbers.try_emplace(hosts_[r], next).first->second;
  }
  hosts_ = std::move(kept);
  placement_.hosts = std::max(1, static_cast<int>(numbers.size()));
}

// The members agreed, but the coordinator does not answer, or one of them went another way.
void Group::check_advance(Instant now) {
  if (!advance_ || now < advance_->deadline) return;
  if (!advance_->agreement->done()) return;  // has a deadline of its own
  fail({Code::kTimeout, "advance() timed out (option timeout) at the coordinator; " +
                            world_->membership().blocked()});
}

void Group::end_advance(const Status& status) {
  if (!advance_) return;
  {
    const std::lock_guard lock(mutex_);
    advancing_ = false;
  }
  const std::shared_ptr<OpWork> work = advance_->work;
  work->set_outcome({epoch_, present_, {}, false, std::exchange(joined_, {})});
  // The agreement's end may still refer to what it reduced.
  work->settle(status);
  executor_->defer([done = std::make_shared<Advance>(std::move(*advance_)), work] { work->end(); });
  advance_.reset();
}

}  // namespace holdfast::ft
