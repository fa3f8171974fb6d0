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
  // Whether has() answers at once; otherwise a wait in get() is the better way to find out.
  virtual bool tells_at_once() const { return false; }
  // Whether the key exists now. Stores that can tell without a wait have their own.
  virtual Result<bool> has(const std::string& key) {
    constexpr Duration kLook = std::chrono::milliseconds(20);
    auto got = get(key, kLook);
    if (got.is_ok()) return true;
    if (got.status().code() == Code::kTimeout) return false;
    return got.status();
  }
  // Sets the key unless it is set; returns its value afterwards. Of two callers at the same time
  // one wins in stores that have an operation of their own for it; this default, for other stores,
  // may let both win.
  virtual Result<std::string> set_once(const std::string& key, const std::string& value) {
    constexpr Duration kLook = std::chrono::seconds(5);
    auto there = has(key);
    if (!there.is_ok()) return there.status();
    if (!there.value()) {
      if (Status status = set(key, value); !status.is_ok()) return status;
    }
    return get(key, kLook);
  }
  // Sets the key if its value is `expected` (empty: if it is not set); returns its value
  // afterwards. Only stores that have an operation of their own for it support this.
  virtual Result<std::string> compare_set(const std::string& key, const std::string&,
                                          const std::string&) {
    return Status{Code::kUnsupported, "store, key " + key + ": this store has no compare_set"};
  }
};

}  // namespace holdfast
