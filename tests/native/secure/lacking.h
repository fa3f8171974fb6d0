// Whether a test must be skipped, with the reason in its output: `if (lacking()) return;`.
#pragma once

#include <doctest/doctest.h>

#include "secure/openssl.h"

namespace holdfast::secure {

inline bool lacking() {
  if (available()) return false;
  MESSAGE("skipped: " << lacks_openssl().message());
  return true;
}

}  // namespace holdfast::secure
