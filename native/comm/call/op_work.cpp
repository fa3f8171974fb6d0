#include "comm/call/op_work.h"

namespace holdfast::comm {

Status OpWork::status() const {
  CHECK(done());
  const std::lock_guard lock(mutex_);
  return status_;
}

Status OpWork::wait(Duration timeout) {
  if (!done()) {
    const Instant now = clock_->now();
    begin_wait(now);
    executor_->drive_until([this] { return done(); }, now + timeout);
  }
  if (done()) return status();
  give_up_wait();
  const double seconds = std::chrono::duration<double>(timeout).count();
  return {Code::kTimeout, std::string(collective_name(collective())) + " #" +
                              std::to_string(sequence_.value) + " is still running after " +
                              std::to_string(seconds) + " s of waiting"};
}

void OpWork::tell_wait(OtherWait other) {
  unseen_.store(other == OtherWait::kUnknown, std::memory_order_relaxed);
  if (other == OtherWait::kWhole) waited_since_.store(kFromStart, std::memory_order_relaxed);
}

void OpWork::begin_wait(Instant now) {
  // The first of several waiting threads counts.
  if (waited_since_.load(std::memory_order_relaxed) != 0) return;
  waited_since_.store(now.since_origin.count(), std::memory_order_relaxed);
}

void OpWork::give_up_wait() {
  std::int64_t since = waited_since_.load(std::memory_order_relaxed);
  if (since == 0 || since == kFromStart) return;  // 0: another thread has given up its wait
  if (!waited_since_.compare_exchange_strong(since, 0, std::memory_order_relaxed)) return;
  waited_earlier_.fetch_add(clock_->now().since_origin.count() - since, std::memory_order_relaxed);
}

Wait OpWork::waited() const {
  return {Instant{Duration(waited_since_.load(std::memory_order_relaxed))},
          Duration(waited_earlier_.load(std::memory_order_relaxed)),
          unseen_.load(std::memory_order_relaxed)};
}

void OpWork::on_done(std::function<void(const Status&)> callback) {
  Status status;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    status = status_;
  }
  callback(status);
}

void OpWork::end() {
  std::vector<std::function<void(const Status&)>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    CHECK(!ended_);
    ended_ = true;
    status_ = settled_;
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) callback(settled_);
  done_.store(true, std::memory_order_release);  // release: results and callbacks' effects
}

}  // namespace holdfast::comm
