#include "base/net/tcp_path.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <limits>

namespace holdfast {
namespace {

// The kernel's own structure as Linux 4.19 has it; newer kernels only add to it. The C library's
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
  std::uint64_t times[3];
  std::uint32_t delivered_packets;
  std::uint32_t marked_packets;
  std::uint64_t sent_bytes;
  std::uint64_t again_bytes;
};
// What Linux 4.9 does not have begins here.
constexpr std::size_t kFirstLength = 168;
constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kNsPerMs = 1000 * kNsPerUs;
constexpr std::size_t kTimeouts = 2;  // place in KernelTcpInfo::states
// Places in KernelTcpInfo::counts, of milliseconds.
constexpr std::size_t kSinceData = 11;
constexpr std::size_t kSinceAnswer = 12;
constexpr std::size_t kDelivered = 2;    // place in KernelTcpInfo::rates_and_bytes
constexpr std::size_t kPacketBytes = 2;  // place in KernelTcpInfo::counts
static_assert(offsetof(KernelTcpInfo, counts) + 4 * kPacketBytes ==
              offsetof(tcp_info, tcpi_snd_mss));
static_assert(offsetof(KernelTcpInfo, times) == kFirstLength);
static_assert(offsetof(KernelTcpInfo, again_bytes) == 208);
static_assert(offsetof(tcp_info, tcpi_retransmits) == 2);
static_assert(offsetof(KernelTcpInfo, counts) + 4 * kSinceAnswer ==
              offsetof(tcp_info, tcpi_last_ack_recv));
static_assert(offsetof(KernelTcpInfo, rates_and_bytes) == 104);
static_assert(offsetof(KernelTcpInfo, round_trip_us) == offsetof(tcp_info, tcpi_rtt));
static_assert(offsetof(KernelTcpInfo, total_retransmits) == offsetof(tcp_info, tcpi_total_retrans));
static_assert(offsetof(KernelTcpInfo, least_round_trip_us) == 148);
static_assert(offsetof(KernelTcpInfo, delivery_rate) == 160);

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
  path.quiet_ns = std::min(info.counts[kSinceData], info.counts[kSinceAnswer]) * kNsPerMs;
  path.timeouts = info.states[kTimeouts];
  if (length < kFirstLength) return path;  // an older kernel
  if (info.least_round_trip_us != kNoRoundTrip) {
    path.least_round_trip_ns = info.least_round_trip_us * kNsPerUs;
  }
  if (info.delivery_rate <= std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    path.bytes_per_s = static_cast<std::int64_t>(info.delivery_rate);
  }
  path.delivered = info.rates_and_bytes[kDelivered];
  path.limited = (info.app_limited & 1U) != 0;
  path.arrived = path.delivered;
  if (length < sizeof info) return path;
  path.arrived = std::uint64_t{info.delivered_packets} * info.counts[kPacketBytes];
  path.sent_again = info.again_bytes;
  return path;
}

}  // namespace holdfast
