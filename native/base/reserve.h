// Reserving the blocks, or pages, of a file before it is mapped: where there is no room for one,
// the process that first touches it is ended by SIGBUS, at some time and with no word of why.
// Why: docs/decisions/0127-shared-memory-is-reserved.md
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace holdfast {

// The number of the error, or 0. What was not reserved before is zero.
inline int reserve_bytes(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  // A signal undoes the call that it interrupts. Between those of a profiler's timer there is time
  // for this much, so that each try gets on.
  constexpr std::uint64_t kStep = 1 << 20;
  while (bytes > 0) {
    const std::uint64_t step = std::min(bytes, kStep);
    const int error =
        ::posix_fallocate(descriptor, static_cast<off_t>(offset), static_cast<off_t>(step));
    if (error == EINTR) continue;
    if (error != 0) return error;
    offset += step;
    bytes -= step;
  }
  return 0;
}

}  // namespace holdfast
