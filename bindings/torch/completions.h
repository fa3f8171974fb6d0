// Completions: what a process group is told of works that have ended, and who waits for all of
// them.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

namespace holdfast::torch_backend {

class Completions {
 public:
  using Hook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;
  explicit Completions(Hook hook) : hook_(std::move(hook)) {}

  // Any thread.
  void begun() { pending_.fetch_add(1, std::memory_order_relaxed); }  // relaxed: a count
  void ended(std::shared_ptr<c10d::WorkInfo> work) {
    try {
      hook_(std::move(work));
    } catch (const std::exception& error) {
      TORCH_WARN("a completion hook raised: ", error.what());
    }
    // release: what the hook did is seen by who waited for it
    if (pending_.fetch_sub(1, std::memory_order_release) == 1) pending_.notify_all();
  }
  // Every op has a time limit, so this has an end.
  void wait() const {
    for (auto left = pending_.load(std::memory_order_acquire); left != 0;
         left = pending_.load(std::memory_order_acquire)) {
      pending_.wait(left);
    }
  }

 private:
  const Hook hook_;
  std::atomic<std::uint32_t> pending_{0};
};

}  // namespace holdfast::torch_backend
