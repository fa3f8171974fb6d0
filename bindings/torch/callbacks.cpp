#include "callbacks.h"

#include <thread>

#include "thread_exit.h"

namespace holdfast::torch_backend {
namespace {

// Idle threads stay this long, so that they survive from one step of a training loop to the next.
constexpr auto kLinger = std::chrono::seconds(10);
// Limit of callbacks that block at the same time, beyond which they queue: a DDP hook has one per
// bucket in flight.
constexpr std::size_t kMaxThreads = 256;

// The tasks of this process, never freed: detached threads use them until the process ends.
struct Tasks {
  std::mutex mutex;  // guards the rest
  std::condition_variable fewer;
  std::size_t left = 0;
  bool ended = false;
};
Tasks& tasks() {
  static auto& all = *new Tasks;
  return all;
}

// Parks the caller once the process ends, so that the objects it holds are not freed.
void park_at_end() {
  std::unique_lock lock(tasks().mutex);
  if (!tasks().ended) return;
  lock.unlock();
  bindings::park();
}

void count_task() {
  const std::lock_guard lock(tasks().mutex);
  ++tasks().left;
}

void task_is_over() {
  const std::lock_guard lock(tasks().mutex);
  --tasks().left;
  tasks().fewer.notify_all();
}

}  // namespace

bool Callbacks::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(tasks().mutex);
  return tasks().fewer.wait_for(lock, limit, [] { return tasks().left == 0; });
}

void Callbacks::end() {
  const std::lock_guard lock(tasks().mutex);
  tasks().ended = true;
}

void Callbacks::run(Task task) {
  count_task();
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  if (queue_.size() <= idle_ || threads_ == kMaxThreads) {
    more_.notify_one();
    return;
  }
  ++threads_;
  // The thread is detached, because the last owner may be a callback; it owns the objects it uses.
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
    park_at_end();
    bindings::parked_at_exit(task);
    park_at_end();
    task = nullptr;  // freed before locking: it may own a group
    task_is_over();
    lock.lock();
  }
  --threads_;
}

}  // namespace holdfast::torch_backend
