#include "callbacks.h"

#include <chrono>
#include <thread>

namespace holdfast::torch_backend {
namespace {

// Between two steps of a training loop a thread should not come and go.
constexpr auto kLinger = std::chrono::seconds(10);
// Callbacks that block at the same time: a DDP hook has one per bucket in flight. Beyond this they
// queue.
constexpr std::size_t kMaxThreads = 256;

}  // namespace

void Callbacks::run(Task task) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  if (queue_.size() <= idle_ || threads_ == kMaxThreads) {
    more_.notify_one();
    return;
  }
  ++threads_;
  // Detached, because the last owner may be a callback; it owns what it uses.
  std::thread([self = shared_from_this()] { self->serve(); }).detach();
}

void Callbacks::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    const bool found = more_.wait_for(lock, kLinger, [this] { return !queue_.empty(); });
    --idle_;
    if (!found) break;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // before the lock: it may hold the last reference to a group
    lock.lock();
  }
  --threads_;
}

}  // namespace holdfast::torch_backend
