#include "comm/transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/forks.h"
#include "base/net/tcp_path.h"

namespace holdfast::comm {
namespace {

// Bytes of one slice, which is read, then reduced while it is in L2.
constexpr std::size_t kTcpReadBytes = 256 * 1024;
// Bytes read ahead while a header is awaited: whole small messages come in one call, but little of
// a large payload passes through the buffer when it could go straight to its place.
constexpr std::size_t kReadAhead = 4096 + 256;
// Bytes below which a direct read saves less than its system call costs.
constexpr std::size_t kDirectBytes = 2048;
// Reads and writes after which the other direction, and other links, have their turn. An urgent
// message waits for no more than these, and changing turns costs little compared with the 1 MiB
// that a turn moves.
constexpr int kReadsPerTurn = 4;
constexpr int kTcpFramesPerTurn = 2;
// Bytes of payload from which no more frames are gathered for the same call.
constexpr std::size_t kTogetherBytes = 64 * 1024;

}  // namespace

TcpLink::TcpLink(Connection connection)
    : fd_(connection.fd), seal_(std::move(connection.seal)), in_(kReadAhead) {}

TcpLink::~TcpLink() { close_unforked(fd_); }

void TcpLink::sever(Status why) {
  fail(std::move(why));
  close_unforked(std::exchange(fd_, -1));
}

void TcpLink::renew(Connection connection) {
  close_unforked(std::exchange(fd_, connection.fd));
  seal_ = std::move(connection.seal);
  const Status why(Code::kPeerLost, "the connection to it broke, and was made anew");
  // Posts of frames that the session has already given to this link fail here.
  for (std::size_t i = writing_; i < taken_; ++i) {
    if (out_[i].frame.post != nullptr) out_[i].frame.post->fail(why);
  }
  for (Outgoing& out : out_) out.frame = {};
  session().restart(why);
  taken_ = writing_ = written_ = 0;
  begin_ = end_ = 0;
  in_payload_ = false;
  readable_ = true;
  blocked_ = false;
  write_error_ = 0;
  closed_by_peer_ = false;
  retransmits_ = 0;
  recover();
}

void TcpLink::hang_up() {
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
  readable_ = true;
}

bool TcpLink::pump() {
  if (!status().is_ok()) return false;
  const bool sent = push();
  const bool received = (readable_ || write_error_ != 0) && pull();
  // Data that the peer sent before it closed is read before the link fails: it may give the reason.
  if (write_error_ != 0 && !received && status().is_ok()) {
    errno = write_error_;
    lost("send");
  }
  return sent || received;
}

void TcpLink::lost(const char* call) {
  if (errno == EBADMSG) {
    return fail({Code::kProtocolError, "what came over the connection is not what was sent"});
  }
  closed_by_peer_ = errno == ECONNRESET || errno == EPIPE;
  fail({Code::kPeerLost, std::string(call) + ": " + std::strerror(errno)});
}

inline ssize_t TcpLink::send(std::span<iovec> parts) {
  if (seal_) [[unlikely]]
    return seal_->send(fd_, parts);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

inline ssize_t TcpLink::receive(std::span<std::byte> to) {
  if (!seal_) [[likely]]
    return ::recv(fd_, to.data(), to.size(), MSG_DONTWAIT);
  const iovec part{to.data(), to.size()};
  return seal_->receive(fd_, {&part, 1});
}

inline ssize_t TcpLink::receive(std::span<iovec> parts) {
  if (seal_) [[unlikely]]
    return seal_->receive(fd_, parts);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::recvmsg(fd_, &message, MSG_DONTWAIT);
}

inline bool TcpLink::on_read(ssize_t count, std::size_t asked) {
  if (count > 0) {
    // A short read took all there was; the poller reports later data again.
    readable_ = static_cast<std::size_t>(count) == asked || seal_ != nullptr;
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

// The buffer grows with what comes: a connection that only ever beats needs little of it.
inline std::size_t TcpLink::make_room(std::uint64_t wanted) {
  if (wanted > in_.size() - end_) grow(wanted);
  return std::min<std::size_t>(wanted, in_.size() - end_);
}

// Sends what the seal still holds; false: the socket takes no more now, or has failed.
bool TcpLink::flush_seal() {
  if (seal_->flush(fd_)) return true;
  blocked_ = true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) write_error_ = errno;
  return false;
}

bool TcpLink::push() {
  bool moved = false;
  if (seal_ && seal_->holds() && !blocked_ && write_error_ == 0 && !flush_seal()) return false;
  for (int i = 0; i < kTcpFramesPerTurn && !blocked_ && write_error_ == 0; ++i) {
    if (writing_ == taken_ && !take_frames()) break;
    if (!write_frames()) break;
    moved = true;
  }
  return moved;
}

// Takes one frame, and more while they are small: a system call costs more than their bytes.
bool TcpLink::take_frames() {
  taken_ = writing_ = written_ = 0;
  std::size_t bytes = 0;
  while (taken_ < kMostTogether && bytes < kTogetherBytes) {
    Outgoing& out = out_[taken_];
    // A frame gets no smaller limit here: early messages must not come in pieces.
    if (!session().next_frame(kMaxFramePayload, out.frame)) break;
    encode_header(out.frame.header, out.header);
    bytes += out.frame.payload.size();
    ++taken_;
  }
  return taken_ > 0;
}

// Writes what the socket takes; true when all frames are out.
bool TcpLink::write_frames() {
  while (writing_ < taken_) {
    std::array<iovec, 2 * kMostTogether> parts;
    std::size_t count = 0;
    std::size_t gone = written_;
    for (std::size_t i = writing_; i < taken_; ++i) {
      Outgoing& out = out_[i];
      if (gone < kFrameHeaderBytes) {
        parts[count++] = {out.header.data() + gone, kFrameHeaderBytes - gone};
      }
      const std::size_t at = gone < kFrameHeaderBytes ? 0 : gone - kFrameHeaderBytes;
      if (at < out.frame.payload.size()) {
        // sendmsg does not write through its vector; iovec has no const.
        auto* rest = const_cast<std::byte*>(out.frame.payload.data()) + at;
        parts[count++] = {rest, out.frame.payload.size() - at};
      }
      gone = 0;
    }
    const ssize_t sent = send(std::span(parts).first(count));
    if (sent < 0) {
      if (errno == EINTR) continue;
      blocked_ = true;
      if (errno != EAGAIN && errno != EWOULDBLOCK) write_error_ = errno;
      return false;
    }
    count_written(static_cast<std::size_t>(sent));
    if (seal_ && seal_->holds() && !flush_seal()) return false;
  }
  return true;
}

void TcpLink::count_written(std::size_t bytes) {
  count_sent(bytes);
  written_ += bytes;
  while (writing_ < taken_ && written_ >= out_[writing_].size()) {
    Outgoing& out = out_[writing_++];
    written_ -= out.size();
    session().sent(out.frame);
    out.frame = {};
  }
}

void TcpLink::look_at_path() {
  if (!status().is_ok()) return;
  const std::optional<TcpPath> path = tcp_path(fd_);
  if (!path) return;
  meter()->round_trip_ns.set(path->round_trip_ns);
  meter()->least_round_trip_ns.set(path->least_round_trip_ns);
  // What a program with little to send got through says nothing of the path.
  if (!path->limited && path->bytes_per_s > 0) meter()->bytes_per_s.set(path->bytes_per_s);
  meter()->retransmits.add(path->retransmits - retransmits_);
  retransmits_ = path->retransmits;
}

void TcpLink::release(const SendPost& post) {
  for (std::size_t i = writing_; i < taken_; ++i) {
    OutFrame& out = out_[i].frame;
    if (out.post != &post) continue;
    // The frame must still go out whole, but its memory goes back to the caller now, so it is
    // copied.
    out.owned_payload.assign(out.payload.begin(), out.payload.end());
    out.payload = out.owned_payload;
    out.post = nullptr;
  }
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

// Reads once, straight to where the bytes are wanted if that pays.
bool TcpLink::fill() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (in_payload_ && begin_ == end_) {
    const std::span<std::byte> direct = whole_elements(session().direct());
    if (direct.size() >= kDirectBytes) return fill_directly(direct);
  }
  if (begin_ > 0) {
    std::memmove(in_.data(), in_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::uint64_t wanted = in_payload_ ? session().payload_left() : session().worth_buffering();
  const std::size_t room = make_room(wanted + kReadAhead);
  const ssize_t count = receive(std::span(in_).subspan(end_, room));
  if (!on_read(count, room)) return false;
  end_ += static_cast<std::size_t>(count);
  return true;
}

void TcpLink::grow(std::uint64_t wanted) {
  const std::size_t end = std::min<std::uint64_t>(kTcpReadBytes, end_ + wanted);
  if (in_.size() < end) in_.resize(std::bit_ceil(end));
}

// Reads a payload to its place; a read that reaches its end also takes what follows into the
// buffer.
bool TcpLink::fill_directly(std::span<std::byte> place) {
  const bool ends = place.size() == session().payload_left();
  std::array<iovec, 2> parts{iovec{place.data(), place.size()}, iovec{in_.data(), kReadAhead}};
  const ssize_t count = receive(std::span(parts).first(ends ? 2 : 1));
  if (!on_read(count, place.size() + (ends ? kReadAhead : 0))) return false;
  const std::size_t direct = std::min(static_cast<std::size_t>(count), place.size());
  session().filled(direct);
  in_payload_ = session().payload_left() > 0;
  end_ = static_cast<std::size_t>(count) - direct;
  return true;
}

// The part of `place` for which whole elements have arrived.
std::span<std::byte> TcpLink::whole_elements(std::span<std::byte> place) const {
  const std::uint64_t unit = session().unit();
  if (unit == 1 || place.size() < kDirectBytes) return place;
  int arrived = 0;
  if (seal_) {
    arrived = static_cast<int>(seal_->arrived());
  } else if (::ioctl(fd_, FIONREAD, &arrived) != 0) {
    return {};
  }
  const auto count = std::min<std::uint64_t>(place.size(), static_cast<std::uint64_t>(arrived));
  return place.first(count / unit * unit);
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
