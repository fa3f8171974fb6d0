#include "runtime/background_thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <utility>

namespace holdfast::runtime {
namespace {

// Ranks may outnumber cores: whoever runs an op goes first.
constexpr int kNice = 10;

}  // namespace

BackgroundThread::~BackgroundThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::run(Task task) {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  tasks_.push_back(std::move(task));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  wakes_.notify_all();
}

void BackgroundThread::work() {
  // On Linux, of this thread alone. Without it the thread is no less right, and so it may fail.
  [[maybe_unused]] const int slower =
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wakes_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (stop_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace holdfast::runtime
