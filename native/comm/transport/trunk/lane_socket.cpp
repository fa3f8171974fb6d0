#include "comm/transport/trunk/lane_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "base/forks.h"
#include "comm/transport/trunk/trunk_terms.h"

namespace holdfast::comm {
namespace {

// Bytes that a socket keeps unsent. What waits there can go over no other lane, and is in the way
// of what is more urgent.
constexpr int kMostUnsent = 128 * 1024;
// Longest name of a congestion control (TCP_CA_NAME_MAX).
constexpr std::size_t kControlName = 16;

int make_epoll() {
  return open_unforked([] { return ::epoll_create1(EPOLL_CLOEXEC); });
}

int fd_of(const LaneStream& stream) { return static_cast<const LaneSocket&>(stream).fd(); }

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  // Neither call writes to the vector itself.
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

LaneSocket::LaneSocket(Connection connection) : connection_(std::move(connection)) {
  ::setsockopt(fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostUnsent, sizeof kMostUnsent);
  std::array<char, kControlName> name{};
  socklen_t length = name.size();
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0) {
    system_control_ = name.data();
  }
}

LaneSocket::~LaneSocket() { close_unforked(fd()); }

ssize_t LaneSocket::send(std::span<const iovec> parts) {
  if (connection_.seal) return connection_.seal->send(fd(), parts);
  const msghdr message = message_of(parts);
  return ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t LaneSocket::receive(std::span<const iovec> parts) {
  if (connection_.seal) return connection_.seal->receive(fd(), parts);
  msghdr message = message_of(parts);
  return ::recvmsg(fd(), &message, MSG_DONTWAIT);
}

void LaneSocket::hang_up() { ::shutdown(fd(), SHUT_RDWR); }

bool LaneSocket::look(TcpPath& path) const {
  const auto known = tcp_path(fd());
  if (known) path = *known;
  return known.has_value();
}

bool LaneSocket::set_control(LaneControl control) {
  const std::string name = control == LaneControl::kBbr ? "bbr" : system_control_;
  const auto length = static_cast<socklen_t>(name.size());
  if (control == control_ || name.empty()) return false;
  if (::setsockopt(fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), length) != 0) return false;
  control_ = control;
  return true;
}

void LaneSocket::set_pace(std::uint64_t bytes_per_s) {
  // The kernel's word for no bound is the largest number.
  const std::uint64_t rate = bytes_per_s == 0 ? ~std::uint64_t{0} : bytes_per_s;
  ::setsockopt(fd(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
}

LaneEpoll::LaneEpoll() : epoll_(make_epoll()) {}

LaneEpoll::~LaneEpoll() {
  if (epoll_ >= 0) close_unforked(epoll_);
}

void LaneEpoll::add(LaneId lane, const LaneStream& stream) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = lane;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd_of(stream), &event);
}

void LaneEpoll::remove(LaneId, const LaneStream& stream) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd_of(stream), nullptr);
}

void LaneEpoll::poll(std::vector<LaneNews>& news) {
  news.clear();
  std::array<epoll_event, kMostTrunkLanes + kSurplusLanes> events;
  const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const bool readable = (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;
    news.push_back({event.data.u64, readable, (event.events & EPOLLOUT) != 0});
  }
}

}  // namespace holdfast::comm
