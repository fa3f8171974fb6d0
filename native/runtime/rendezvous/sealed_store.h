// SealedStore: a store whose values carry a code that only processes with the job's secret can make
// (HKDF of key and value, RFC 5869, as a keyed hash). Whoever else can write to the store can keep
// a job from meeting, and cannot send it anywhere: what was changed, or stands under another key,
// is refused. It does not tell an old value of a key from its latest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/store.h"
#include "secure/secret.h"

namespace holdfast::runtime {

// The codes. It never changes: any thread, while one owns it.
class StoreSeal {
 public:
  // The first secret makes codes; all are known.
  static Result<std::shared_ptr<const StoreSeal>> of(const std::vector<secure::Secret>& secrets);

  Result<std::string> seal(const std::string& key, const std::string& value) const;
  // The value; kAuthFailed if it has no code, or not one of this key and value.
  Result<std::string> open(const std::string& key, const std::string& text) const;

 private:
  explicit StoreSeal(std::vector<secure::Secret> keys) : keys_(std::move(keys)) {}

  std::vector<secure::Secret> keys_;
};

// Both outlive it. As the store below it, for threads.
class SealedStore final : public Store {
 public:
  SealedStore(Store& below, const StoreSeal& seal) : below_(below), seal_(seal) {}

  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Duration timeout) override;
  bool tells_at_once() const override { return below_.tells_at_once(); }
  Result<bool> has(const std::string& key) override;
  Result<std::string> set_once(const std::string& key, const std::string& value) override;

 private:
  Store& below_;
  const StoreSeal& seal_;
};

}  // namespace holdfast::runtime
