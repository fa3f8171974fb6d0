#include "store.h"

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/string.h>

#include "gil.h"

namespace nb = nanobind;

namespace holdfast::bindings {
namespace {

// Stores say "it never came" in several ways: TimeoutError, torch's DistStoreError, a RuntimeError
// that says so.
Status status_of(nb::python_error& error, const std::string& key) {
  const std::string text = error.what();
  const bool timed_out = error.matches(PyExc_TimeoutError) ||
                         text.find("imeout") != std::string::npos ||
                         text.find("imed out") != std::string::npos;
  return {timed_out ? Code::kTimeout : Code::kSystem, "store, key " + key + ": " + text};
}

}  // namespace

Status PythonStore::set(const std::string& key, const std::string& value) {
  const GilTaken gil;
  if (!gil) return Status{Code::kAborted, "store, key " + key + ": the interpreter is exiting"};
  try {
    store_.attr("set")(key, value);
    return Status::ok();
  } catch (nb::python_error& error) {
    return status_of(error, key);
  }
}

Result<std::string> PythonStore::get(const std::string& key, Duration timeout) {
  const GilTaken gil;
  if (!gil) return Status{Code::kAborted, "store, key " + key + ": the interpreter is exiting"};
  try {
    nb::list keys;
    keys.append(key);
    // At least a millisecond: stores take zero for "no limit".
    const auto limit = std::max<Duration>(timeout, std::chrono::milliseconds(1));
    store_.attr("wait")(keys, std::chrono::duration_cast<std::chrono::microseconds>(limit));
    const nb::object value = store_.attr("get")(key);
    if (nb::isinstance<nb::bytes>(value)) {
      const auto bytes = nb::cast<nb::bytes>(value);
      return std::string(bytes.c_str(), bytes.size());
    }
    return nb::cast<std::string>(value);
  } catch (nb::python_error& error) {
    return status_of(error, key);
  }
}

}  // namespace holdfast::bindings
