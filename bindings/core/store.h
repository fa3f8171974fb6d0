// A Python store as the runtime's Store: any object with torch's set(key, value), wait(keys,
// timeout) and get(key). Call it without the GIL; it takes the GIL for each call.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "base/store.h"

namespace holdfast::bindings {

class PythonStore final : public Store {
 public:
  explicit PythonStore(nanobind::object store) : store_(std::move(store)) {}
  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Duration timeout) override;
  bool tells_at_once() const override;
  Result<bool> has(const std::string& key) override;
  Result<std::string> set_once(const std::string& key, const std::string& value) override;
  Result<std::string> compare_set(const std::string& key, const std::string& expected,
                                  const std::string& desired) override;

  // Rethrows an exception that was no failure of the store: Ctrl-C, SystemExit. Needs the GIL.
  void raise_interrupt();

 private:
  Status status_of(nanobind::python_error error, const std::string& key);

  nanobind::object store_;
  std::optional<nanobind::python_error> interrupt_;
};

}  // namespace holdfast::bindings
