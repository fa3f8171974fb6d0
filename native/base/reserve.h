// Reserving the blocks, or pages, of a file before it is mapped: if there is no room for a block,
// the process that first touches it is ended by SIGBUS, at some later time and without a message.
// Why: docs/decisions/0127-shared-memory-is-reserved.md
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace holdfast {

// Returns the number of the error, or 0. Blocks that were not reserved before are zero.
inline int reserve_bytes(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  // A signal undoes the call that it interrupts. Between the signals of a profiler's timer there is
  // time for a step of this size, so that each try gets on.
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
