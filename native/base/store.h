// Store port: the key-value rendezvous through which the members of a new group find each other.
// c10d's stores, a directory on a shared file system, and the simulator implement it.
#pragma once

#include <string>

#include "base/result.h"

namespace holdfast {

class Store {
 public:
  virtual ~Store() = default;
  virtual Status set(const std::string& key, const std::string& value) = 0;
  // Waits until the key exists, at most `timeout`; Code::kTimeout when it never came.
  virtual Result<std::string> get(const std::string& key, Duration timeout) = 0;
  // Whether the key exists now. Stores that can tell without a wait have their own.
  virtual Result<bool> has(const std::string& key) {
    constexpr Duration kLook = std::chrono::milliseconds(20);
    auto got = get(key, kLook);
    if (got.is_ok()) return true;
    if (got.status().code() == Code::kTimeout) return false;
    return got.status();
  }
};

}  // namespace holdfast
