#include "comm/transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace holdfast::comm {
namespace {

// One slice: read, then reduced while it is in L2.
constexpr std::size_t kSliceBytes = 256 * 1024;
// Read-ahead while a header is awaited: whole small messages come in one call, but a large payload
// is not dragged through the buffer when it could go straight to its place.
constexpr std::size_t kReadAhead = 4096 + 256;
// Below this a direct read saves less than its system call costs.
constexpr std::size_t kDirectBytes = 2048;
// After so many the other direction, and other links, have their turn: an urgent message waits for
// no more, and a turn costs little by the 1 MiB that it moves.
constexpr int kReadsPerTurn = 4;
constexpr int kTcpFramesPerTurn = 2;

}  // namespace

TcpLink::TcpLink(int fd) : fd_(fd), in_(kSliceBytes) {}

TcpLink::~TcpLink() { ::close(fd_); }

bool TcpLink::pump() {
  if (!status().is_ok()) return false;
  const bool sent = push();
  const bool received = (readable_ || write_error_ != 0) && pull();
  // What the peer said before it went is read first: it may be why.
  if (write_error_ != 0 && !received && status().is_ok()) {
    errno = write_error_;
    lost("send");
  }
  return sent || received;
}

void TcpLink::lost(const char* call) {
  closed_by_peer_ = errno == ECONNRESET || errno == EPIPE;
  fail({Code::kPeerLost, std::string(call) + ": " + std::strerror(errno)});
}

bool TcpLink::push() {
  bool moved = false;
  for (int i = 0; i < kTcpFramesPerTurn && !blocked_ && write_error_ == 0; ++i) {
    if (!writing_) {
      if (!session().next_frame(kMaxFramePayload, out_)) break;
      encode_header(out_.header, out_header_);
      written_ = 0;
      writing_ = true;
    }
    if (!write_frame()) break;
    moved = true;
  }
  return moved;
}

// Writes what the socket takes; true when the frame is out.
bool TcpLink::write_frame() {
  const std::size_t total = kFrameHeaderBytes + out_.payload.size();
  while (written_ < total) {
    iovec parts[2];
    int count = 0;
    if (written_ < kFrameHeaderBytes) {
      parts[count++] = {out_header_.data() + written_, kFrameHeaderBytes - written_};
    }
    const std::size_t gone = written_ < kFrameHeaderBytes ? 0 : written_ - kFrameHeaderBytes;
    if (gone < out_.payload.size()) {
      // sendmsg does not write through its vector; iovec has no const.
      auto* rest = const_cast<std::byte*>(out_.payload.data()) + gone;
      parts[count++] = {rest, out_.payload.size() - gone};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<std::size_t>(count);
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      blocked_ = true;
      if (errno != EAGAIN && errno != EWOULDBLOCK) write_error_ = errno;
      return false;
    }
    written_ += static_cast<std::size_t>(sent);
    count_sent(static_cast<std::uint64_t>(sent));
  }
  writing_ = false;
  session().sent(out_);
  out_ = {};
  return true;
}

void TcpLink::look_at_kernel() {
  if (meter() == nullptr || !status().is_ok()) return;
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return;
  meter()->round_trip_ns.set(std::int64_t{info.tcpi_rtt} * 1000);
  meter()->retransmits.add(info.tcpi_total_retrans - retransmits_);
  retransmits_ = info.tcpi_total_retrans;
}

void TcpLink::release(const SendPost& post) {
  if (!writing_ || out_.post != &post) return;
  // The frame has to end as it began, but its memory goes back to the caller now.
  out_.owned_payload.assign(out_.payload.begin(), out_.payload.end());
  out_.payload = out_.owned_payload;
  out_.post = nullptr;
}

bool TcpLink::pull() {
  bool moved = false;
  for (int i = 0; i < kReadsPerTurn && status().is_ok(); ++i) {
    if (!fill()) break;
    moved = true;
    if (!parse()) break;
    if (!readable_ && write_error_ == 0) break;
  }
  return moved;
}

// One read, to where the bytes are wanted.
bool TcpLink::fill() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (in_payload_ && begin_ == end_) {
    const std::span<std::byte> direct = whole_elements(session().direct());
    if (direct.size() >= kDirectBytes) {
      const ssize_t count = ::recv(fd_, direct.data(), direct.size(), MSG_DONTWAIT);
      if (!on_read(count, direct.size())) return false;
      session().filled(static_cast<std::uint64_t>(count));
      in_payload_ = session().payload_left() > 0;
      return true;
    }
  }
  if (begin_ > 0) {
    std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  std::size_t room = in_.size() - end_;
  if (!in_payload_) room = std::min(room, kReadAhead);
  if (in_payload_) room = std::min<std::size_t>(room, session().payload_left() + kReadAhead);
  const ssize_t count = ::recv(fd_, in_.data() + end_, room, MSG_DONTWAIT);
  if (!on_read(count, room)) return false;
  end_ += static_cast<std::size_t>(count);
  return true;
}

// As much of `place` as whole elements have arrived for.
std::span<std::byte> TcpLink::whole_elements(std::span<std::byte> place) const {
  const std::uint64_t unit = session().unit();
  if (unit == 1 || place.size() < kDirectBytes) return place;
  int arrived = 0;
  if (::ioctl(fd_, FIONREAD, &arrived) != 0) return {};
  const auto count = std::min<std::uint64_t>(place.size(), static_cast<std::uint64_t>(arrived));
  return place.first(count / unit * unit);
}

bool TcpLink::on_read(ssize_t count, std::size_t asked) {
  if (count > 0) {
    // Less than asked for is all there was; what comes later is announced again.
    readable_ = static_cast<std::size_t>(count) == asked;
    received_ += static_cast<std::uint64_t>(count);
    count_received(static_cast<std::uint64_t>(count));
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    readable_ = errno == EINTR;
    return false;
  }
  if (count == 0) {
    closed_by_peer_ = true;
    fail({Code::kPeerLost, "connection closed by the peer"});
  } else {
    lost("receive");
  }
  return false;
}

// Consumes what was read; false when the link failed.
bool TcpLink::parse() {
  for (;;) {
    if (in_payload_) {
      const auto bytes = std::span<const std::byte>(in_).subspan(begin_, end_ - begin_);
      const std::uint64_t taken = bytes.empty() ? 0 : session().payload(bytes);
      begin_ += taken;
      in_payload_ = session().payload_left() > 0;
      if (in_payload_ && taken == 0) return true;
      continue;
    }
    if (end_ - begin_ < kFrameHeaderBytes) return true;
    auto header = parse_header(
        std::span<const std::byte, kFrameHeaderBytes>(in_.data() + begin_, kFrameHeaderBytes));
    if (!header.is_ok()) {
      fail(header.status());
      return false;
    }
    begin_ += kFrameHeaderBytes;
    if (Status status = session().begin_frame(header.value()); !status.is_ok()) {
      fail(std::move(status));
      return false;
    }
    in_payload_ = session().payload_left() > 0;
  }
}

}  // namespace holdfast::comm
