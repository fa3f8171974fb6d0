// CHECK: ends the process on an error in our own code. It is on in release builds, because a wrong
// result is worse than a dead process. Errors from outside are values: see result.h.
#pragma once

namespace holdfast {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace holdfast

// Test frameworks bring a CHECK of their own; tests include theirs first and keep it.
#ifndef CHECK
#define CHECK(condition)                               \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::holdfast::check_failed(#condition, __FILE__, __LINE__))
#endif
