// TCP info: what the kernel knows of a connection. Apart, for the kernel's header, which knows more
// than the C library's, cannot be included beside that.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace holdfast::comm {

struct TcpInfo {
  Duration round_trip{};  // smoothed
  std::uint32_t retransmits = 0;
  // Time in which data was on its way: sent, not acknowledged, and not for want of room at the
  // peer. Zero where the kernel is older than 4.10.
  Duration busy{};
};

// Nothing when it is no TCP connection.
std::optional<TcpInfo> tcp_info_of(int fd);

}  // namespace holdfast::comm
