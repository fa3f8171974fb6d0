// Background thread: runs what nobody waits for, one task after the other. It is started with the
// first task: most jobs have none.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "comm/plan/map_plans.h"

namespace holdfast::runtime {

class BackgroundThread final : public comm::Background {
 public:
  BackgroundThread() = default;
  // Waits for the task that runs; those behind it are not run.
  ~BackgroundThread() override;
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void run(Task task) override;

 private:
  void work();

  std::mutex mutex_;  // guards the members below
  std::condition_variable wakes_;
  std::deque<Task> tasks_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace holdfast::runtime
