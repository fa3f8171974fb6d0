// A Python store as the runtime's Store port: any object with torch's set(key, value), wait(keys,
// timeout) and get(key). Called without the GIL; takes it for each call.
#pragma once

#include <nanobind/nanobind.h>

#include "base/store.h"

namespace holdfast::bindings {

class PythonStore final : public Store {
 public:
  explicit PythonStore(nanobind::object store) : store_(std::move(store)) {}
  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Duration timeout) override;

 private:
  nanobind::object store_;
};

}  // namespace holdfast::bindings
