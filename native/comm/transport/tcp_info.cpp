#include "comm/transport/tcp_info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

namespace holdfast::comm {

std::optional<TcpInfo> tcp_info_of(int fd) {
  tcp_info info{};  // what an old kernel does not fill stays zero
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  const std::uint64_t busy =
      info.tcpi_busy_time - std::min(info.tcpi_busy_time, info.tcpi_rwnd_limited);
  return TcpInfo{std::chrono::microseconds(info.tcpi_rtt), info.tcpi_total_retrans,
                 std::chrono::microseconds(busy)};
}

}  // namespace holdfast::comm
