#include "comm/transport/trunk/trunk_lane.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/copy.h"
#include "base/forks.h"

namespace holdfast::comm {
namespace {

// Bytes that are read together with a payload's end, so that small frames need few calls.
constexpr std::size_t kLaneReadAhead = 8192;
// Frames and bytes that are gathered for one call, and wait in this lane while others are idle.
constexpr std::size_t kMostGathered = 16;
constexpr std::size_t kGatheredBytes = 64 * 1024;
// Bytes that a socket keeps unsent. What waits there can go over no other lane, and is in the way
// of what is more urgent.
constexpr int kMostUnsent = 128 * 1024;
// Longest name of a congestion control (TCP_CA_NAME_MAX).
constexpr std::size_t kControlName = 16;

}  // namespace

TrunkLane::TrunkLane(LaneId id, Connection connection)
    : id_(id), connection_(std::move(connection)), in_(kLaneReadAhead) {
  ::setsockopt(fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostUnsent, sizeof kMostUnsent);
  std::array<char, kControlName> name{};
  socklen_t length = name.size();
  if (::getsockopt(fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0) {
    system_control_ = name.data();
  }
}

void TrunkLane::set_control(LaneControl control) {
  const std::string name = control == LaneControl::kBbr ? "bbr" : system_control_;
  const auto length = static_cast<socklen_t>(name.size());
  if (control == control_ || name.empty()) return;
  if (::setsockopt(fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), length) == 0) control_ = control;
}

TrunkLane::~TrunkLane() { close_unforked(fd()); }

void TrunkLane::look() {
  if (const auto path = tcp_path(fd())) path_ = *path;
}

void TrunkLane::hang_up() {
  ::shutdown(fd(), SHUT_RDWR);
  readable_ = true;
}

bool TrunkLane::on_received(ssize_t count, std::size_t asked) {
  if (count > 0) {
    readable_ = static_cast<std::size_t>(count) == asked || connection_.seal != nullptr;
    received_ += static_cast<std::uint64_t>(count);
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    readable_ = errno == EINTR;
    return false;
  }
  if (count == 0) {
    fail({Code::kPeerLost, "connection closed by the peer"});
  } else if (errno == EBADMSG) {
    fail({Code::kPeerLost, "what came over the connection is not what was sent"});
  } else {
    fail({Code::kPeerLost, std::string("receive: ") + std::strerror(errno)});
  }
  return false;
}

// Reads the rest of a payload straight to its place, and what follows it into the buffer.
bool TrunkLane::fill() {
  if (!is_readable()) return false;
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0) {
    std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t left = coming_ ? coming_->frame.payload_bytes - come_ : 0;
  const bool direct = left > 0 && end_ == 0;
  std::array<iovec, 2> parts{};
  std::size_t count = 0;
  if (direct) parts[count++] = {coming_->payload.memory.get() + come_, left};
  parts[count++] = {in_.data() + end_, in_.size() - end_};
  const std::size_t asked = (direct ? left : 0) + in_.size() - end_;
  ssize_t got = 0;
  if (connection_.seal) {
    got = connection_.seal->receive(fd(), std::span(parts).first(count));
  } else {
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    got = ::recvmsg(fd(), &message, MSG_DONTWAIT);
  }
  if (!on_received(got, asked)) {
    // What the peer sent before it closed has been read.
    if (write_error_ != 0) {
      fail({Code::kPeerLost, std::string("send: ") + std::strerror(write_error_)});
    }
    return false;
  }
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t placed = direct ? std::min(bytes, left) : 0;
  come_ += placed;
  end_ += bytes - placed;
  return true;
}

std::optional<TrunkLane::LaneArrival> TrunkLane::take(FrameOrder& rooms) {
  if (!coming_) {
    const auto bytes = std::span<const std::byte>(in_).subspan(begin_, end_ - begin_);
    if (bytes.size() < kLaneHeaderBytes) return std::nullopt;
    auto lane = parse_lane_header(bytes.first<kLaneHeaderBytes>());
    if (!lane.is_ok()) return fail(lane.status()), std::nullopt;
    if (!lane.value().stream) {
      begin_ += kLaneHeaderBytes;
      return LaneArrival{lane.value(), {}, {}};
    }
    if (bytes.size() < kLaneHeaderBytes + kFrameHeaderBytes) return std::nullopt;
    auto frame = parse_header(bytes.subspan(kLaneHeaderBytes).first<kFrameHeaderBytes>());
    if (!frame.is_ok()) return fail(frame.status()), std::nullopt;
    begin_ += kLaneHeaderBytes + kFrameHeaderBytes;
    coming_.emplace(
        LaneArrival{lane.value(), frame.value(), rooms.room(frame.value().payload_bytes)});
    come_ = 0;
  }
  const std::size_t left = coming_->frame.payload_bytes - come_;
  const std::size_t here = std::min(left, end_ - begin_);
  if (here > 0) copy_bytes(coming_->payload.memory.get() + come_, in_.data() + begin_, here);
  come_ += here;
  begin_ += here;
  if (here < left) return std::nullopt;
  return std::exchange(coming_, std::nullopt);
}

bool TrunkLane::takes_more() const {
  if (blocked_ || !status_.is_ok()) return false;
  std::size_t bytes = 0;
  for (std::size_t i = next_out_; i < out_.size(); ++i) bytes += out_[i].size();
  return out_.size() - next_out_ < kMostGathered && bytes < kGatheredBytes;
}

void TrunkLane::queue(const LaneHeader& header, std::shared_ptr<const SentFrame> frame) {
  OutgoingFrame& out = out_.emplace_back();
  encode_lane_header(header, out.header);
  out.frame = std::move(frame);
}

bool TrunkLane::flush_seal() {
  if (connection_.seal->flush(fd())) return true;
  on_write_error();
  return false;
}

void TrunkLane::on_write_error() {
  blocked_ = true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) write_error_ = errno;
}

bool TrunkLane::flush() {
  if (!status_.is_ok() || blocked_) return false;
  if (seals_hold() && !flush_seal()) return false;
  bool moved = false;
  while (next_out_ < out_.size()) {
    std::array<iovec, 2 * kMostGathered> parts;
    std::size_t count = 0;
    std::size_t gone = written_;
    for (std::size_t i = next_out_; i < out_.size() && count + 2 <= parts.size(); ++i) {
      OutgoingFrame& out = out_[i];
      if (gone < kLaneHeaderBytes) {
        parts[count++] = {out.header.data() + gone, kLaneHeaderBytes - gone};
      }
      const std::size_t at = gone < kLaneHeaderBytes ? 0 : gone - kLaneHeaderBytes;
      if (out.frame) {
        // sendmsg does not write through its vector; iovec has no const.
        auto* rest = const_cast<std::byte*>(out.frame->bytes.data()) + at;
        parts[count++] = {rest, out.frame->bytes.size() - at};
      }
      gone = 0;
    }
    ssize_t sent = 0;
    if (connection_.seal) {
      sent = connection_.seal->send(fd(), std::span(parts).first(count));
    } else {
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = count;
      sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (sent < 0) {
      if (errno == EINTR) continue;
      on_write_error();
      return moved;
    }
    moved = true;
    on_written(static_cast<std::size_t>(sent));
    if (seals_hold() && !flush_seal()) return moved;
  }
  return moved;
}

void TrunkLane::on_written(std::size_t bytes) {
  sent_ += bytes;
  written_ += bytes;
  while (next_out_ < out_.size() && written_ >= out_[next_out_].size()) {
    written_ -= out_[next_out_].size();
    out_[next_out_++].frame.reset();
  }
  if (next_out_ < out_.size()) return;
  out_.clear();
  next_out_ = 0;
}

}  // namespace holdfast::comm
