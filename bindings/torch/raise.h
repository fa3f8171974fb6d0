// A Status as a C++ exception, which passes through torch; the module translates it to the class of
// holdfast.errors.
#pragma once

#include <stdexcept>

#include "base/result.h"
#include "gil.h"

namespace holdfast::torch_backend {

class StatusError : public std::runtime_error {
 public:
  explicit StatusError(Status status)
      : std::runtime_error(std::string(code_name(status.code())) + ": " + status.message()),
        status_(std::move(status)) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

[[noreturn]] inline void raise(Status status) {
  park_if_process_ends();
  throw StatusError(std::move(status));
}

inline void raise_if(const Status& status) {
  if (!status.is_ok()) raise(status);
}

template <class T>
T value_or_raise(Result<T> result) {
  if (!result.is_ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace holdfast::torch_backend
