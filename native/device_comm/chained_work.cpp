#include "device_comm/chained_work.h"

#include <algorithm>
#include <utility>

#include "device_comm/staged.h"

namespace holdfast::device_comm {

using comm::Collective;
using comm::OpRequest;
using device::Cu;
using device::CuEvent;
using device::Device;

class ChainedWork::StepGate final : public comm::Gate {
 public:
  StepGate(std::shared_ptr<ChainedWork> work, std::size_t step)
      : work_(std::move(work)), step_(step) {}

  std::optional<Status> look() override { return work_->look(step_); }
  void fill(OpRequest& request) override { work_->fill(step_, request); }

 private:
  const std::shared_ptr<ChainedWork> work_;  // owners: the caller, and the ops of the chain
  const std::size_t step_;
};

ChainedWork::ChainedWork(std::shared_ptr<Staged> staged, const OpRequest& request, Rank rank,
                         std::size_t steps)
    : DeviceWork(std::move(staged), request.collective),
      request_(request),
      rank_(rank),
      last_(steps) {}

ChainedWork::~ChainedWork() = default;

std::shared_ptr<ChainedWork> ChainedWork::self() {
  return std::static_pointer_cast<ChainedWork>(shared_from_this());
}

OpSeq ChainedWork::sequence() const { return sequence_; }

void ChainedWork::tell_wait(comm::OtherWait other) {
  std::vector<std::shared_ptr<comm::Work>> works;
  {
    const std::lock_guard lock(mutex_);
    works = works_;
  }
  for (const auto& work : works) {
    if (work != nullptr) work->tell_wait(other);
  }
}

Status ChainedWork::begin(comm::Communicator& group, std::span<const device::CuStream> streams) {
  const auto refuse = [this](const Status& why) {
    on_broken();
    give_back(false);
    return why;
  };
  if (const Status ready = prepare(streams); !ready.is_ok()) return refuse(ready);
  const std::size_t steps = last_ + 1;
  running_ = steps;
  std::vector<std::shared_ptr<comm::Work>> works;
  Status failed;
  while (works.size() < steps && failed.is_ok()) {
    auto started = group.start(whole_step(works.size()));
    if (started.is_ok()) {
      works.push_back(std::move(started).value());
    } else {
      failed = started.status();
    }
  }
  if (works.empty()) return refuse(failed);
  sequence_ = works[0]->sequence();
  {
    const std::lock_guard lock(mutex_);
    works_ = works;
    works_.resize(steps);
  }
  on_numbered();
  for (std::size_t i = 0; i < works.size(); ++i) {
    works[i]->on_done([work = self(), i](const Status& status) { work->on_step(i, status); });
  }
  // The group has ended meanwhile, and so have the ops that started.
  for (std::size_t i = works.size(); i < steps; ++i) on_step(i, failed);
  return Status::ok();
}

OpRequest ChainedWork::whole_step(std::size_t step) {
  OpRequest request;
  if (step == last_) {
    request.collective = Collective::kBarrier;
  } else {
    request = step_request(step);
  }
  request.timeout = request_.timeout;
  request.priority = request_.priority;
  request.how.gate = std::make_shared<StepGate>(self(), step);
  request.how.may_measure = false;
  // Only the call's first step, which stands for it, fails on a hole where the call does; later
  // steps are decided by outcomes.
  request.on_hole = step == 0 ? request_.on_hole : comm::OnHole::kZero;
  return request;
}

void ChainedWork::on_step(std::size_t step, const Status& status) {
  std::shared_ptr<comm::Work> work;
  {
    const std::lock_guard lock(mutex_);
    work = std::exchange(works_.at(step), nullptr);
    if (!status.is_ok() && decision_ != Decision::kDone && status_.is_ok()) status_ = status;
  }
  if (!status.is_ok()) {
    on_broken();
    decide(Decision::kBroken);
  } else if (step == last_) {
    on_last(work->outcome());
  } else if (!is_decided()) {
    on_step_ended(step, work->outcome());
  }
  {
    const std::lock_guard lock(mutex_);
    if (--running_ > 0) return;
  }
  on_all();
}

void ChainedWork::on_last(const comm::Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (decision_ != Decision::kStaged) return;
  const bool retried = outcome_.retried;
  outcome_ = outcome;
  outcome_.retried = outcome_.retried || retried;
}

void ChainedWork::on_all() {
  std::shared_ptr<Bounce> bounce;
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_ok()) bounce = bounce_;
  }
  if (bounce == nullptr) return end();
  bounce->start(Bounce::Direction::kDown, [work = self()](const Status& status) {
    {
      const std::lock_guard lock(work->mutex_);
      if (work->status_.is_ok()) work->status_ = status;
    }
    work->end();
  });
}

void ChainedWork::decide(Decision decision) {
  {
    const std::lock_guard lock(mutex_);
    if (decision_ != Decision::kOpen) return;
    decision_ = decision;
  }
  staged_->wake_now();
}

bool ChainedWork::is_decided() const {
  const std::lock_guard lock(mutex_);
  return decision_ != Decision::kOpen;
}

void ChainedWork::merge_outcome(const comm::Outcome& outcome, bool again) {
  const std::lock_guard lock(mutex_);
  merge(outcome_, outcome, !std::exchange(any_outcome_, true));
  outcome_.retried = outcome_.retried || again;
}

// The host learns of it when the last op has ended: a member that closes the group then leaves no
// other member waiting.
void ChainedWork::succeed(Status enqueued) {
  if (enqueued.is_ok()) enqueued = set_streams_free();
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_ok()) status_ = enqueued;
  }
  decide(Decision::kDone);
}

void ChainedWork::stage() {
  auto bounce = std::make_shared<Bounce>(staged_, bounce_memory_);
  auto bound = bounce->bind(request_, rank_);
  {
    const std::lock_guard lock(mutex_);
    if (bound.is_ok()) {
      bounce_ = bounce;
      staged_request_ = std::move(bound).value();
    } else {
      stage_failure_ = bound.status();
    }
  }
  if (stage_failure_.is_ok()) {
    bounce->start(Bounce::Direction::kUp,
                  [work = self()](const Status&) { work->staged_->wake_now(); });
  }
  decide(Decision::kStaged);
}

std::optional<Status> ChainedWork::look_at(CuEvent event) const {
  const Device::Current current(device());
  if (!current.status().is_ok()) return current.status();
  const Cu result = device().driver().event_query(event);
  if (result == Cu::kNotReady) return std::nullopt;
  return device().check(result, "copying the input up");
}

std::optional<Status> ChainedWork::look(std::size_t step) {
  std::shared_ptr<Bounce> bounce;
  {
    const std::lock_guard lock(mutex_);
    if (step == last_) {
      if (decision_ == Decision::kOpen) return std::nullopt;
      if (decision_ != Decision::kStaged) return Status::ok();
      if (!stage_failure_.is_ok()) return stage_failure_;
      bounce = bounce_;
    } else if (step > 0 && decision_ != Decision::kOpen) {
      return Status::ok();
    }
  }
  return bounce != nullptr ? bounce->state() : look_at_step(step);
}

void ChainedWork::fill(std::size_t step, OpRequest& request) {
  if (step < last_) {
    if (!is_decided()) fill_step(step, request);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (decision_ != Decision::kStaged) return;
  OpRequest whole = *staged_request_;
  whole.timeout = request.timeout;
  whole.how.gate = request.how.gate;
  request = std::move(whole);
}

std::vector<CuEvent> ChainedWork::pending_events() {
  std::vector<CuEvent> events;
  for (const device::CuStream stream : {staged_->up(), staged_->down()}) {
    auto event = device().take_event();
    if (!event.is_ok()) continue;
    [[maybe_unused]] const Cu recorded = device().driver().event_record(event.value(), stream);
    events.push_back(event.value());
  }
  return events;
}

Status ChainedWork::take_chain_memory(std::uint64_t bytes) {
  auto flag = device().take_flag();
  if (!flag.is_ok()) return flag.status();
  flag_ = flag.value();
  auto piece = device().take(std::min(bytes, staged_->slice_bytes()));
  if (!piece.is_ok()) return piece.status();
  bounce_memory_ = piece.value();
  return Status::ok();
}

void ChainedWork::give_chain_memory(bool idle, std::vector<CuEvent> events) {
  if (idle || bounce_memory_.data == nullptr) {
    for (const CuEvent event : events) device().give_event(event);
    if (bounce_memory_.data != nullptr) device().give(bounce_memory_);
    return;
  }
  for (const CuEvent event : pending_events()) events.push_back(event);
  device().give_after(bounce_memory_, events);
}

}  // namespace holdfast::device_comm
