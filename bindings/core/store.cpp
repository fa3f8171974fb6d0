#include "store.h"

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "gil.h"

namespace nb = nanobind;

namespace holdfast::bindings {
namespace {

// torch's stores wait in native code, which no signal interrupts: waits are cut into slices, and
// Ctrl-C works in between. Slices are not shorter, because torch's TCPStore writes two warnings for
// each slice without a result.
constexpr Duration kSlice = std::chrono::seconds(5);

// The error's class and text, without the trace that what() contains.
std::string text_of(const nb::python_error& error) {
  const std::string kind = nb::cast<std::string>(error.type().attr("__name__"));
  return kind + ": " + nb::str(error.value()).c_str();
}

// Stores report a timeout in several ways: TimeoutError, torch's DistStoreError, or a RuntimeError
// with such a text.
bool is_timeout(const nb::python_error& error) {
  if (error.matches(PyExc_TimeoutError)) return true;
  const std::string text = text_of(error);
  return text.find("imeout") != std::string::npos || text.find("imed out") != std::string::npos;
}

Status exiting(const std::string& key) {
  return {Code::kAborted, "store, key " + key + ": the interpreter is exiting"};
}

std::string to_bytes(const nb::object& value) {
  if (!nb::isinstance<nb::bytes>(value)) return nb::cast<std::string>(value);
  const auto bytes = nb::cast<nb::bytes>(value);
  return {bytes.c_str(), bytes.size()};
}

// Whether the key came within the slice.
bool wait_once(const nb::object& store, const std::string& key, Duration slice) {
  nb::list keys;
  keys.append(key);
  // The limit is at least a millisecond, because stores take zero for "no limit".
  const auto limit = std::max<Duration>(slice, std::chrono::milliseconds(1));
  try {
    store.attr("wait")(keys, std::chrono::duration_cast<std::chrono::microseconds>(limit));
    return true;
  } catch (nb::python_error& error) {
    if (!is_timeout(error)) throw;
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  return false;
}

}  // namespace

Status PythonStore::status_of(nb::python_error error, const std::string& key) {
  if (!error.matches(PyExc_Exception)) {
    interrupt_.emplace(std::move(error));
    return {Code::kAborted, "store, key " + key + ": interrupted"};
  }
  const Code code = is_timeout(error) ? Code::kTimeout : Code::kSystem;
  return {code, "store, key " + key + ": " + text_of(error)};
}

void PythonStore::raise_interrupt() {
  if (interrupt_.has_value()) throw std::move(*interrupt_);
}

bool PythonStore::tells_at_once() const {
  const GilTaken gil;
  return gil && nb::hasattr(store_, "check");
}

Result<bool> PythonStore::has(const std::string& key) {
  {
    const GilTaken gil;
    if (!gil) return exiting(key);
    try {
      if (nb::hasattr(store_, "check")) {
        nb::list keys;
        keys.append(key);
        // A caller that polls must notice Ctrl-C.
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        return nb::cast<bool>(store_.attr("check")(keys));
      }
    } catch (nb::python_error& error) {
      return status_of(std::move(error), key);
    }
  }
  return Store::has(key);
}

Status PythonStore::set(const std::string& key, const std::string& value) {
  const GilTaken gil;
  if (!gil) return exiting(key);
  try {
    store_.attr("set")(key, value);
    return Status::ok();
  } catch (nb::python_error& error) {
    return status_of(std::move(error), key);
  }
}

Result<std::string> PythonStore::set_once(const std::string& key, const std::string& value) {
  {
    const GilTaken gil;
    if (!gil) return exiting(key);
    try {
      if (nb::hasattr(store_, "compare_set")) {
        return to_bytes(store_.attr("compare_set")(key, "", value));
      }
    } catch (nb::python_error& error) {
      return status_of(std::move(error), key);
    }
  }
  return Store::set_once(key, value);
}

Result<std::string> PythonStore::compare_set(const std::string& key, const std::string& expected,
                                             const std::string& desired) {
  const GilTaken gil;
  if (!gil) return exiting(key);
  try {
    return to_bytes(store_.attr("compare_set")(key, expected, desired));
  } catch (nb::python_error& error) {
    return status_of(std::move(error), key);
  }
}

Result<std::string> PythonStore::get(const std::string& key, Duration timeout) {
  const GilTaken gil;
  if (!gil) return exiting(key);
  const auto end = std::chrono::steady_clock::now() + timeout;
  try {
    for (;;) {
      const Duration left = end - std::chrono::steady_clock::now();
      if (wait_once(store_, key, std::min(left, kSlice))) return to_bytes(store_.attr("get")(key));
      if (left <= kSlice) return Status{Code::kTimeout, "store: key " + key + " never came"};
    }
  } catch (nb::python_error& error) {
    return status_of(std::move(error), key);
  }
}

}  // namespace holdfast::bindings
