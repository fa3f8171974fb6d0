// Observers: hooks for works that have ended, and for groups that fail. Torch 2.13 has one
// completion hook per group; later versions add numbered hooks (their guard macro shows it).
#pragma once

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

// The guard macro came with 2.14; the completion hooks, which it also covers, came with 2.15.
#if defined(C10D_BACKEND_HAS_HOOKS) && (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15)
#define HOLDFAST_HAS_COMPLETION_HOOKS 1
#endif

namespace holdfast::torch_backend {

// Any thread, unless a method says otherwise.
class Observers {
 public:
  using Hook = std::function<void(std::shared_ptr<c10d::WorkInfo>)>;

  // Call before the first work that the hook shall see.
  void set_hook(Hook hook) {
    hook_ = std::move(hook);
    hooked_.store(true, std::memory_order_release);  // release: publishes hook_
    watched_.store(true, std::memory_order_release);
  }
  // Whether works that begin now are for the group's hook. Those that began before are not, though
  // they may be watched, as torch 2.15 has numbered hooks from the start.
  bool hooked() const { return hooked_.load(std::memory_order_acquire); }
  // Whether works must be timed and reported.
  bool watched() const { return watched_.load(std::memory_order_acquire); }

  void begun() { pending_.fetch_add(1, std::memory_order_relaxed); }  // relaxed: a count
  // Runs the hook, if the work is for it; blocks as long as the hook does.
  void ended(std::shared_ptr<c10d::WorkInfo> work, bool hooked) {
    try {
      if (hooked) hook_(std::move(work));
    } catch (const std::exception& error) {
      TORCH_WARN("a completion hook raised: ", error.what());
    }
    // release: a thread in wait() sees what the hook did
    if (pending_.fetch_sub(1, std::memory_order_release) == 1) pending_.notify_all();
  }
  // Waits for all pending works. Every op has a time limit, so the wait ends.
  void wait() const {
    for (auto left = pending_.load(std::memory_order_acquire); left != 0;
         left = pending_.load(std::memory_order_acquire)) {
      pending_.wait(left);
    }
  }

#ifdef C10D_BACKEND_HAS_HOOKS
  void add_abort_hook(int64_t id, c10d::AbortHook hook) {
    const std::lock_guard lock(mutex_);
    abort_hooks_[id] = std::move(hook);
  }
  void remove_abort_hook(int64_t id) {
    const std::lock_guard lock(mutex_);
    abort_hooks_.erase(id);
  }
#endif
  // Runs the abort hooks: the group fails, or is about to be aborted.
  void failing() {
#ifdef C10D_BACKEND_HAS_HOOKS
    std::map<int64_t, c10d::AbortHook> hooks;
    {
      const std::lock_guard lock(mutex_);
      hooks = abort_hooks_;
    }
    for (const auto& [id, hook] : hooks) hook();
#endif
  }

#ifdef HOLDFAST_HAS_COMPLETION_HOOKS
  void add_completion_hook(int64_t id, c10d::CompletionHook hook) {
    const std::lock_guard lock(mutex_);
    completion_hooks_[id] = std::move(hook);
    watched_.store(true, std::memory_order_release);
  }
  void remove_completion_hook(int64_t id) {
    const std::lock_guard lock(mutex_);
    completion_hooks_.erase(id);
  }
  void succeeded(const c10d::CompletionHookArgs& work) {
    std::map<int64_t, c10d::CompletionHook> hooks;
    {
      const std::lock_guard lock(mutex_);
      hooks = completion_hooks_;
    }
    for (const auto& [id, hook] : hooks) hook(work);
  }
#endif

 private:
  Hook hook_;
  std::atomic<bool> hooked_{false};
  std::atomic<bool> watched_{false};
  std::atomic<std::uint32_t> pending_{0};
#ifdef C10D_BACKEND_HAS_HOOKS
  std::mutex mutex_;  // guards the hooks below
  std::map<int64_t, c10d::AbortHook> abort_hooks_;
#endif
#ifdef HOLDFAST_HAS_COMPLETION_HOOKS
  std::map<int64_t, c10d::CompletionHook> completion_hooks_;
#endif
};

}  // namespace holdfast::torch_backend
