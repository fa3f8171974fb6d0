#include "runtime/direct_work.h"

#include <algorithm>
#include <numeric>

#include "comm/call.h"
#include "comm/request_check.h"
#include "runtime/direct.h"
#include "runtime/staged.h"

namespace holdfast::runtime {

using comm::Block;
using comm::Collective;
using comm::OpRequest;
using device::Cu;
using device::CuEvent;
using device::Device;
using device::DevicePointer;

class DirectWork::StepGate final : public comm::Gate {
 public:
  StepGate(std::shared_ptr<DirectWork> work, std::size_t step)
      : work_(std::move(work)), step_(step) {}

  std::optional<Status> look() override { return work_->look(step_); }
  void fill(OpRequest& request) override {
    if (step_ == work_->last()) work_->fill(request);
  }

 private:
  const std::shared_ptr<DirectWork> work_;  // owners: the caller, and the ops it is made of
  const std::size_t step_;
};

DirectWork::DirectWork(std::shared_ptr<Staged> staged, Direct& direct,
                       const comm::Communicator& group, const OpRequest& request,
                       Direct::Extra extra, std::shared_ptr<comm::PathAgreement> agreement)
    : DeviceWork(std::move(staged), request.collective),
      direct_(direct),
      request_(request),
      shape_(shape_of(request, group.rank(), group.size())),
      group_(group.name()),
      trial_(extra.trial),
      agreement_(std::move(agreement)),
      cards_(static_cast<std::size_t>(group.size())) {
  take_packed(std::move(extra.packed));
}

DirectWork::~DirectWork() = default;

std::shared_ptr<DirectWork> DirectWork::self() {
  return std::static_pointer_cast<DirectWork>(shared_from_this());
}

OpSeq DirectWork::sequence() const { return sequence_; }

std::uint64_t DirectWork::all_of(const std::vector<std::uint64_t>& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), std::uint64_t{0});
}

void DirectWork::tell_wait(comm::OtherWait other) {
  std::array<std::shared_ptr<comm::Work>, kMostSteps> works;
  {
    const std::lock_guard lock(mutex_);
    works = works_;
  }
  for (const auto& work : works) {
    if (work != nullptr) work->tell_wait(other);
  }
}

Status DirectWork::begin(comm::Communicator& group, std::span<const device::CuStream> streams) {
  const auto refuse = [this](const Status& why) {
    conclude(false, false);
    give_back(false);
    return why;
  };
  if (const Status ready = prepare(streams); !ready.is_ok()) return refuse(ready);
  const std::size_t steps = last() + 1;
  running_ = steps;
  std::vector<std::shared_ptr<comm::Work>> works;
  Status failed;
  while (works.size() < steps && failed.is_ok()) {
    auto started = group.start(step_request(works.size()));
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
    std::copy(works.begin(), works.end(), works_.begin());
  }
  for (std::size_t i = 0; i < works.size(); ++i) {
    works[i]->on_done([work = self(), i](const Status& status) { work->on_step(i, status); });
  }
  // The group has ended meanwhile: so do those that have started.
  for (std::size_t i = works.size(); i < steps; ++i) on_step(i, failed);
  return Status::ok();
}

OpRequest DirectWork::step_request(std::size_t step) {
  OpRequest request;
  request.timeout = request_.timeout;
  request.priority = request_.priority;
  request.gate = std::make_shared<StepGate>(self(), step);
  request.may_measure = false;
  if (step == last()) {
    request.collective = Collective::kBarrier;
    return request;
  }
  if (step > 0) {
    const auto bytes = [](std::uint32_t& word) { return reinterpret_cast<std::byte*>(&word); };
    request.collective = Collective::kAllReduce;
    request.dtype = DType::kU32;
    request.op = ReduceOp::kBand;
    request.input = {{bytes(word_in_.at(step - 1)), 1}};
    request.output = {{bytes(word_out_.at(step - 1)), 1}};
    return request;
  }
  request.collective = Collective::kAllGather;
  request.dtype = DType::kU8;
  request.on_device = true;
  request.stands_for = std::make_shared<const comm::Call>(comm::call_of(request_, {}));
  request.input = {{reinterpret_cast<std::byte*>(&card_), sizeof card_}};
  for (DirectCard& card : cards_) {
    request.output.push_back({reinterpret_cast<std::byte*>(&card), sizeof card});
  }
  return request;
}

void DirectWork::on_step(std::size_t step, const Status& status) {
  std::shared_ptr<comm::Work> work;
  {
    const std::lock_guard lock(mutex_);
    work = std::exchange(works_.at(step), nullptr);
    if (!status.is_ok() && decision_ != Decision::kDirect && status_.is_ok()) status_ = status;
  }
  if (!status.is_ok()) {
    conclude(false, false);
    decide(Decision::kBroken);
  } else if (step == 0) {
    const std::lock_guard lock(mutex_);
    outcome_ = work->outcome();
  } else if (step == last()) {
    on_last(work->outcome());
  }
  if (status.is_ok() && step == 0) on_where();
  if (status.is_ok() && step > 0 && step < last()) on_word(step - 1, work->outcome());
  {
    const std::lock_guard lock(mutex_);
    if (--running_ > 0) return;
  }
  on_all();
}

void DirectWork::on_where() {
  ranks_ = outcome_.contributors;
  const auto there = [this](Rank rank) {
    return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end();
  };
  bool able = true;
  bool ready = request_.collective != Collective::kBroadcast || there(request_.root);
  for (int r = 0; r < shape_.size; ++r) {
    const DirectCard& card = cards_[static_cast<std::size_t>(r)];
    direct_.peers().seat(group_, r, there({r}) ? card.owner : 0);
    if (!there({r})) continue;
    able = able && card.able != 0;
    ready = ready && card.ready != 0;
  }
  if (able && ready) return begin_phase(0);
  conclude(true, able);
  stage();
}

void DirectWork::on_word(std::size_t word, const comm::Outcome& outcome) {
  const bool whole = outcome.contributors == ranks_;
  {
    const std::lock_guard lock(mutex_);
    if (decision_ != Decision::kOpen) return;
    merge(outcome_, outcome, false);
    outcome_.retried = outcome_.retried || !whole;
  }
  const std::uint32_t said = word_out_.at(word);
  conclude(whole, (said & kReached) != 0);
  if (!whole || said != (kReached | kRead)) return stage();
  if (word + 1 < words()) return begin_phase(word + 1);
  succeed();
}

void DirectWork::on_last(const comm::Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  if (decision_ != Decision::kStaged) return;
  const bool retried = outcome_.retried;
  outcome_ = outcome;
  outcome_.retried = outcome_.retried || retried;
}

void DirectWork::on_all() {
  std::shared_ptr<Bounce> bounce;
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_ok()) bounce = bounce_;
  }
  if (bounce == nullptr) return end();
  bounce->start(Bounce::Way::kDown, [work = self()](const Status& status) {
    {
      const std::lock_guard lock(work->mutex_);
      if (work->status_.is_ok()) work->status_ = status;
    }
    work->end();
  });
}

void DirectWork::decide(Decision decision) {
  {
    const std::lock_guard lock(mutex_);
    if (decision_ != Decision::kOpen) return;
    decision_ = decision;
  }
  staged_->wake_now();
}

void DirectWork::conclude(bool whole, bool reached) {
  using Verdict = comm::PathAgreement::Verdict;
  if (trial_ == 0) return;
  const Verdict found = reached ? Verdict::kDirect : Verdict::kStaged;
  agreement_->conclude(trial_, whole ? found : Verdict::kAgain);
}

// The result is this rank's, and nobody reads its memory any more.
void DirectWork::succeed() {
  Status moved;
  {
    const Device::Current current(device());
    moved = current.status();
    for (std::size_t i = 0; result_ && moved.is_ok() && i < shape_.output.size(); ++i) {
      const Block& block = request_.output[i];
      if (block.count == 0) continue;
      moved = device().copy(address(block.data), result_at(i), shape_.output[i], staged_->down());
    }
  }
  // Streams go on from here. The host learns of it when the last op has ended: who closes the group
  // then leaves nobody behind.
  if (moved.is_ok()) moved = set_streams_free();
  {
    const std::lock_guard lock(mutex_);
    if (status_.is_ok()) status_ = moved;
  }
  decide(Decision::kDirect);
}

// Once more, through the host: inputs are as they were.
void DirectWork::stage() {
  auto bounce = std::make_shared<Bounce>(staged_, bounce_memory_);
  auto bound = bounce->bind(request_, shape_.rank);
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
    bounce->start(Bounce::Way::kUp, [work = self()](const Status&) { work->staged_->wake_now(); });
  }
  decide(Decision::kStaged);
}

std::optional<Status> DirectWork::look_at(const std::optional<CuEvent>& event) const {
  const Device::Current current(device());
  if (!current.status().is_ok()) return current.status();
  const Cu result = device().driver().event_query(*event);
  if (result == Cu::kNotReady) return std::nullopt;
  return device().check(result, "copying the input up");
}

std::optional<Status> DirectWork::look(std::size_t step) {
  if (step == 0) return look_at(arrived_);
  std::shared_ptr<Bounce> bounce;
  std::optional<CuEvent> phase;
  {
    const std::lock_guard lock(mutex_);
    if (step == last()) {
      if (decision_ == Decision::kOpen) return std::nullopt;
      if (decision_ != Decision::kStaged) return Status::ok();
      if (!stage_failure_.is_ok()) return stage_failure_;
      bounce = bounce_;
    } else {
      if (decision_ != Decision::kOpen) return Status::ok();
      if (!enqueued_.at(step - 1)) return std::nullopt;
      phase = phases_.at(step - 1);
    }
  }
  if (bounce != nullptr) return bounce->state();
  if (!phase) return Status::ok();
  const std::optional<Status> ended = look_at(phase);
  // All ranks are to know.
  if (ended && !ended->is_ok()) word_in_.at(step - 1) = kReached;
  return ended ? std::optional(Status::ok()) : std::nullopt;
}

void DirectWork::fill(OpRequest& request) {
  const std::lock_guard lock(mutex_);
  if (decision_ != Decision::kStaged) return;
  OpRequest whole = *staged_request_;
  whole.timeout = request.timeout;
  whole.gate = request.gate;
  request = std::move(whole);
}

}  // namespace holdfast::runtime
