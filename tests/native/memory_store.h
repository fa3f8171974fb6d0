// A Store in memory, for nodes that are threads of one test process.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "base/store.h"

namespace holdfast::testing {

class MemoryStore final : public Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
    return Status::ok();
  }

  Result<std::string> get(const std::string& key, Duration timeout) override {
    std::unique_lock lock(mutex_);
    // system_clock: TSan does not intercept the steady-clock wait of this libstdc++.
    const auto deadline = std::chrono::system_clock::now() + timeout;
    while (!values_.contains(key)) {
      if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) break;
    }
    const auto found = values_.find(key);
    if (found == values_.end()) return Status{Code::kTimeout, "no key " + key};
    return found->second;
  }

  bool tells_at_once() const override { return true; }

  Result<bool> has(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.contains(key);
  }

  Result<std::string> set_once(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    return values_.try_emplace(key, value).first->second;
  }

  Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    const std::string now = found == values_.end() ? "" : found->second;
    if (now != expected) return now;
    changed_.notify_all();
    return values_[key] = desired;
  }

 private:
  std::mutex mutex_;  // guards values_
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace holdfast::testing
