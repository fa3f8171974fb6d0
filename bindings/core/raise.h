// Errors for Python: a Status becomes the exception class of holdfast.errors with the same name.
#pragma once

#include "base/result.h"

namespace holdfast::bindings {

// Throws when the status is an error. Needs the GIL.
void raise_if(const Status& status);

template <class T>
T value_or_raise(Result<T> result) {
  if (!result.is_ok()) raise_if(result.status());
  return std::move(result).value();
}

}  // namespace holdfast::bindings
