#include "work.h"

#include <algorithm>

#include "device_ops.h"
#include "gil.h"
#include "raise.h"

namespace holdfast::torch_backend {

void HoldfastWork::follow(Started started) {
  ops_ = std::move(started.ops);
  tensors_ = std::move(started.tensors);
  may_have_holes_ = started.may_have_holes;
  lazy_.store(started.lazy, std::memory_order_relaxed);  // relaxed: readers already have this work
  if (timed_) began_ = std::chrono::steady_clock::now();
  if (watched_) observers_->begun();
  left_.store(ops_.size(), std::memory_order_relaxed);  // relaxed: published by on_done's lock
  if (ops_.empty()) return end();
  // The ops keep this work alive until the last of them has ended.
  auto self = c10::intrusive_ptr<HoldfastWork>::reclaim_copy(this);
  for (const auto& op : ops_) {
    op->on_done([self](const Status& status) { self->end_one(status); });
  }
}

void HoldfastWork::push() {
  constexpr Duration kOneLook = std::chrono::microseconds(1);
  for (const auto& op : ops_) {
    // An op that is not done yet is no failure.
    [[maybe_unused]] const Status status = op->wait(kOneLook);
  }
  if (!ended_.load(std::memory_order_acquire)) look_after();
}

// The caller wants a notification, or polls: the op must make progress without a wait.
void HoldfastWork::look_after() {
  if (lazy_.exchange(false, std::memory_order_relaxed)) group_->wake();
}

void HoldfastWork::end_one(const Status& status) {
  if (!status.is_ok()) {
    const std::lock_guard lock(state_mutex_);
    if (!failure_) failure_ = std::make_exception_ptr(StatusError(status));
  }
  // acq_rel: the thread of the last op sees the writes of the others
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
}

void HoldfastWork::end() {
  try {
    for (Tensors& tensors : tensors_) tensors.store_results();
  } catch (...) {
    const std::lock_guard lock(state_mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  tensors_.clear();
  if (timed_) ended_at_ = std::chrono::steady_clock::now();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  c10::intrusive_ptr<c10::ivalue::Future> result;
  std::exception_ptr failure;
  bool may_block = false;
  {
    const std::lock_guard lock(state_mutex_);
    settled_ = true;
    failure = failure_;
    future = future_;
    result = future_result_;
    may_block = has_python_callbacks_;
  }
  // finish() sets torch's own state, which the base class reads.
  finish(failure);
  ended_.store(true, std::memory_order_release);  // release: publishes the results
  if (failure) observers_->failing();
  if (watched_) tell_observers();
  if (!may_block) {
    if (future) complete(*future);
    return;
  }
  auto self = c10::intrusive_ptr<HoldfastWork>::reclaim_copy(this);
  callbacks_->run([self, future, result] {
    if (future) self->complete(*future);
    if (result) result->markCompleted(static_cast<int64_t>(self->outcome()));
  });
}

void HoldfastWork::tell_observers() {
  auto info = std::make_shared<c10d::WorkInfo>(retrieveOpType(), sequence_, began_, ended_at_,
                                               ended_at_ - began_);
#ifdef HOLDFAST_HAS_COMPLETION_HOOKS
  if (outcome() == c10d::WorkResult::SUCCESS) {
    observers_->succeeded({getCompletionKey(), info->activeDuration.count() * 1000});
  }
#endif
  callbacks_->run(
      [observers = observers_, info, hooked = hooked_] { observers->ended(info, hooked); });
}

// Needs no lock: once settled_, failure_ does not change.
c10d::WorkResult HoldfastWork::outcome() const {
  if (!failure_) return c10d::WorkResult::SUCCESS;
  try {
    std::rethrow_exception(failure_);
  } catch (const StatusError& error) {
    return error.status().code() == Code::kTimeout ? c10d::WorkResult::TIMEOUT
                                                   : c10d::WorkResult::COMM_ERROR;
  } catch (...) {
    return c10d::WorkResult::UNKNOWN;
  }
}

int HoldfastWork::sourceRank() const {
  if (ops_.size() != 1 || !ops_[0]->done()) {
    raise({Code::kConfigError, "the source of a receive is known when it has ended; wait() first"});
  }
  return ops_[0]->source().value;
}

float HoldfastWork::getDuration() const {
  if (!timed_ || !ended_.load(std::memory_order_acquire)) {
    raise({Code::kConfigError,
           "no duration: the work has not ended, or the group's collectives are not timed (call "
           "_enable_collectives_timing() first)"});
  }
  return std::chrono::duration<float, std::milli>(ended_at_ - began_).count();
}

// Needs no lock: once settled_, failure_ does not change.
void HoldfastWork::complete(c10::ivalue::Future& future) const {
  if (failure_) {
    future.setErrorIfNeeded(failure_);
  } else {
    future.markCompleted(at::IValue(results_));
  }
}

bool HoldfastWork::isSuccess() const {
  return ended_.load(std::memory_order_acquire) && exception() == nullptr;
}

// Makes the current streams wait; returns whether the host has nothing left to wait for.
bool HoldfastWork::streams_wait() const {
  bool all = !ops_.empty();
  for (const auto& op : ops_) all = value_or_raise(current_stream_waits(*op)) && all;
  return all;
}

bool HoldfastWork::wait(std::chrono::milliseconds timeout) {
  const bool limited = timeout != kNoTimeout && timeout > std::chrono::milliseconds::zero();
  if (!limited && !may_have_holes_ && streams_wait()) return true;
  const auto end = std::chrono::steady_clock::now() + (limited ? Duration(timeout) : kForever);
  for (const auto& op : ops_) {
    const Duration left = end - std::chrono::steady_clock::now();
    const Status status = op->wait(std::max(Duration::zero(), left));
    if (!op->done()) raise(status);
  }
  // After wait() the caller may read the Future, so it must be complete.
  if (const auto future = completing()) future->wait();
  if (const std::exception_ptr failure = exception()) {
    park_if_process_ends();
    std::rethrow_exception(failure);
  }
  return true;
}

void HoldfastWork::abort() { group_->abort("Work.abort() was called"); }

c10::intrusive_ptr<c10::ivalue::Future> HoldfastWork::getFuture() {
  look_after();
  // A Future does not tell how callers wait for it.
  tell_wait(comm::OtherWait::kUnknown);
  {
    const std::lock_guard lock(state_mutex_);
    has_python_callbacks_ = has_python_callbacks_ || holds_gil();
    if (future_) return future_;
  }
  // The Future is made on demand, because it costs as much as a small op, and blocking calls never
  // ask for it. On CUDA tensors it also synchronises the streams of its waiters.
  auto future = c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()), devices());
  const std::lock_guard lock(state_mutex_);
  if (future_) return future_;
  future_ = std::move(future);
  if (settled_) complete(*future_);
  return future_;
}

std::vector<c10::Device> HoldfastWork::devices() const {
  std::vector<c10::Device> devices;
  for (const at::Tensor& tensor : results_) {
    const bool known = std::find(devices.begin(), devices.end(), tensor.device()) != devices.end();
    if (tensor.is_cuda() && !known) devices.push_back(tensor.device());
  }
  return devices;
}

void HoldfastWork::tell_wait(comm::OtherWait other) const {
  for (const auto& op : ops_) op->tell_wait(other);
}

c10::intrusive_ptr<c10::ivalue::Future> HoldfastWork::getFutureResult() {
  look_after();
  const std::lock_guard lock(state_mutex_);
  has_python_callbacks_ = true;
  if (future_result_) return future_result_;
  future_result_ = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  if (settled_) future_result_->markCompleted(static_cast<int64_t>(outcome()));
  return future_result_;
}

comm::Outcome HoldfastWork::made_of() const {
  comm::Outcome whole;
  bool first = true;
  for (const auto& op : ops_) {
    if (!op->done())
      raise({Code::kConfigError, "outcome of work that has not ended; wait() first"});
    raise_if(op->status());
    const comm::Outcome& part = op->outcome();
    if (first) {
      whole = part;
      first = false;
      continue;
    }
    whole.epoch = std::max(whole.epoch, part.epoch);
    whole.retried = whole.retried || part.retried;
    std::erase_if(whole.contributors, [&](Rank rank) {
      return std::find(part.contributors.begin(), part.contributors.end(), rank) ==
             part.contributors.end();
    });
    for (const Rank rank : part.missing) {
      if (std::find(whole.missing.begin(), whole.missing.end(), rank) == whole.missing.end()) {
        whole.missing.push_back(rank);
      }
    }
  }
  std::sort(whole.missing.begin(), whole.missing.end());
  return whole;
}

// The Future that another thread is about to complete.
c10::intrusive_ptr<c10::ivalue::Future> HoldfastWork::completing() const {
  const std::lock_guard lock(state_mutex_);
  return has_python_callbacks_ ? future_ : nullptr;
}

}  // namespace holdfast::torch_backend
