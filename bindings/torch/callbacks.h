// Callbacks: threads for what users hang on a Future. Such a callback may block, even on the Future
// of an op that it starts itself (PowerSGD's DDP hook does), so it must not run on the thread that
// moves the data, nor queue behind another one. Hence a new thread whenever all others are busy;
// idle ones go after a while.
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

  // Runs `task` soon, whatever the others do. Any thread.
  void run(Task task);

  // Waits until no task of this process is left, those of all Callbacks; false: `limit` was over.
  // Without the GIL.
  static bool drain(std::chrono::milliseconds limit);
  // From now on a task that comes to its end is kept: it may have the last reference to a tensor,
  // and a Python object cannot be freed by a thread of ours while the interpreter goes away.
  static void end();

 private:
  void serve();

  std::mutex mutex_;  // guards the rest
  std::condition_variable more_;
  std::deque<Task> queue_;
  std::size_t idle_ = 0;  // waiting threads, including those that were just told of a task
  std::size_t threads_ = 0;
};

}  // namespace holdfast::torch_backend
