// torch's store as the runtime's Store.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/store.h"

namespace holdfast::torch_backend {

class StoreAdapter final : public Store {
 public:
  explicit StoreAdapter(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Duration timeout) override;
  bool tells_at_once() const override { return true; }
  Result<bool> has(const std::string& key) override;
  Result<std::string> set_once(const std::string& key, const std::string& value) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace holdfast::torch_backend
