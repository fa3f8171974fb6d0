// Callbacks: threads for what users hang on a Future. Such a callback may block, even on the Future
// of an op that it starts itself (PowerSGD's DDP hook does), so it must not run on the thread that
// moves the data, nor queue behind another one. Hence a new thread whenever all others are busy;
// idle ones go after a while.
#pragma once

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

 private:
  void serve();

  std::mutex mutex_;  // guards the rest
  std::condition_variable more_;
  std::deque<Task> queue_;
  std::size_t idle_ = 0;  // waiting threads, including those that were just told of a task
  std::size_t threads_ = 0;
};

}  // namespace holdfast::torch_backend
