// Callbacks: threads that run users' callbacks of Futures. A callback may block, even on the Future
// of an op that it starts itself (PowerSGD's DDP hook does), so it must not run on the thread that
// moves the data, nor queue behind another callback. So a new thread starts whenever all others are
// busy; idle threads end after a while.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace holdfast::torch_backend {

class Callbacks : public std::enable_shared_from_this<Callbacks> {
 public:
  using Task = std::function<void()>;

  // Runs `task` soon, even if other tasks block. Any thread.
  void run(Task task);

  // Waits until no task of any Callbacks of this process is left; false when `limit` was over.
  // Without the GIL.
  static bool drain(std::chrono::milliseconds limit);
  // From now on tasks are not freed when they end: a task may hold the last reference to a tensor,
  // and a thread of ours cannot free a Python object while the interpreter shuts down.
  static void end();

 private:
  void serve();

  std::mutex mutex_;  // guards the rest
  std::condition_variable more_;
  std::deque<Task> queue_;
  std::size_t idle_ = 0;  // waiting threads, including notified ones
  std::size_t threads_ = 0;
};

}  // namespace holdfast::torch_backend
