#include "store_adapter.h"

#include <algorithm>

namespace holdfast::torch_backend {
namespace {

// torch's stores report a timeout in the error's text only.
Status status_of(const std::exception& error, const std::string& key) {
  const std::string text = error.what();
  const bool timed_out =
      text.find("imeout") != std::string::npos || text.find("imed out") != std::string::npos;
  return {timed_out ? Code::kTimeout : Code::kSystem, "store, key " + key + ": " + text};
}

}  // namespace

Status StoreAdapter::set(const std::string& key, const std::string& value) {
  try {
    store_->set(key, value);
    return Status::ok();
  } catch (const std::exception& error) {
    return status_of(error, key);
  }
}

Result<std::string> StoreAdapter::get(const std::string& key, Duration timeout) {
  try {
    // The limit is at least a millisecond, because stores take zero for "no limit".
    const auto limit = std::max(std::chrono::duration_cast<std::chrono::milliseconds>(timeout),
                                std::chrono::milliseconds(1));
    store_->wait({key}, limit);
    return store_->get_to_str(key);
  } catch (const std::exception& error) {
    return status_of(error, key);
  }
}

Result<bool> StoreAdapter::has(const std::string& key) {
  try {
    return store_->check({key});
  } catch (const std::exception& error) {
    return status_of(error, key);
  }
}

Result<std::string> StoreAdapter::set_once(const std::string& key, const std::string& value) {
  try {
    const std::vector<std::uint8_t> wanted(value.begin(), value.end());
    const auto now = store_->compareSet(key, {}, wanted);
    return std::string(now.begin(), now.end());
  } catch (const std::exception& error) {
    return status_of(error, key);
  }
}

}  // namespace holdfast::torch_backend
