// What the kernel knows of the path that a TCP connection takes (TCP_INFO).
#pragma once

#include <cstdint>
#include <optional>

namespace holdfast {

struct TcpPath {
  std::int64_t round_trip_ns = 0;        // smoothed
  std::int64_t least_round_trip_ns = 0;  // 0: the kernel does not say
  // What was delivered a second when it was last measured; 0: nothing was. `limited`: the program
  // had too little to send then, so that the path can do more.
  std::int64_t bytes_per_s = 0;
  bool limited = true;
  std::uint32_t retransmits = 0;  // since the connection began
  std::uint64_t delivered = 0;    // bytes that the other kernel has, since the connection began
  // Likewise, in whole packets, with those that came after one that was lost, where the kernel says
  // so.
  std::uint64_t arrived = 0;
  std::uint64_t sent_again = 0;  // bytes; 0: none, or the kernel does not say
  std::int64_t quiet_ns = 0;     // since anything has come from the other kernel
  // How often in a row the kernel's timer has sent again what was not answered.
  std::uint8_t timeouts = 0;
};

// Nothing: it is no TCP connection.
std::optional<TcpPath> tcp_path(int fd);

}  // namespace holdfast
