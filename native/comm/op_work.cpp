#include "comm/op_work.h"

namespace holdfast::comm {

Status OpWork::status() const {
  CHECK(done());
  const std::lock_guard lock(mutex_);
  return status_;
}

Status OpWork::wait(Duration timeout) {
  if (!done()) {
    executor_->drive_until([this] { return done(); }, clock_->now() + timeout);
  }
  if (done()) return status();
  const double seconds = std::chrono::duration<double>(timeout).count();
  return {Code::kTimeout, std::string(collective_name(request_.collective)) + " #" +
                              std::to_string(sequence_.value) + " is still running after " +
                              std::to_string(seconds) + " s of waiting"};
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
