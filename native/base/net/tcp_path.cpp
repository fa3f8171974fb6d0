#include "base/net/tcp_path.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstddef>
#include <limits>

namespace holdfast {
namespace {

// The kernel's own structure as Linux 4.9 has it; newer kernels only add to it. The C library's
// ends before what we want, and the kernel's header cannot be included beside the C library's.
struct KernelTcpInfo {
  std::uint8_t states[7];
  std::uint8_t app_limited;  // bit 0
  std::uint32_t counts[15];
  std::uint32_t round_trip_us;
  std::uint32_t more_counts[7];
  std::uint32_t total_retransmits;
  std::uint64_t rates_and_bytes[4];
  std::uint32_t segments[3];
  std::uint32_t least_round_trip_us;
  std::uint32_t data_segments[2];
  std::uint64_t delivery_rate;  // bytes a second
};
static_assert(offsetof(KernelTcpInfo, round_trip_us) == offsetof(tcp_info, tcpi_rtt));
static_assert(offsetof(KernelTcpInfo, total_retransmits) == offsetof(tcp_info, tcpi_total_retrans));
static_assert(offsetof(KernelTcpInfo, least_round_trip_us) == 148);
static_assert(offsetof(KernelTcpInfo, delivery_rate) == 160);

constexpr std::int64_t kNsPerUs = 1000;
// The kernel's word for a round trip that it has not seen.
constexpr std::uint32_t kNoRoundTrip = ~std::uint32_t{0};

}  // namespace

std::optional<TcpPath> tcp_path(int fd) {
  KernelTcpInfo info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  TcpPath path;
  path.round_trip_ns = info.round_trip_us * kNsPerUs;
  path.retransmits = info.total_retransmits;
  if (length < sizeof info) return path;  // an older kernel
  if (info.least_round_trip_us != kNoRoundTrip) {
    path.least_round_trip_ns = info.least_round_trip_us * kNsPerUs;
  }
  if (info.delivery_rate <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    path.bytes_per_s = static_cast<std::int64_t>(info.delivery_rate);
  }
  path.limited = (info.app_limited & 1U) != 0;
  return path;
}

}  // namespace holdfast
