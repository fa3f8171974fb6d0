#include "runtime/rendezvous/handshake.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/forks.h"
#include "comm/transport/frame.h"

namespace holdfast::runtime {

using comm::FrameHeader;
using comm::FrameKind;
using comm::kFrameHeaderBytes;

Handshake::Handshake(int fd, const Endpoint& to, const Greeting& hello, Instant deadline)
    : fd_(fd), caller_(true), connecting_(true), endpoint_(to), hello_(hello), deadline_(deadline) {
  queue(true, hello);
}

Handshake::Handshake(int fd, Instant deadline) : fd_(fd), caller_(false), deadline_(deadline) {}

Handshake::~Handshake() { close_unforked(fd_); }

int Handshake::take_fd() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

Handshake::HandshakeState Handshake::fail(Status why) {
  failure_ = std::move(why);
  return HandshakeState::kFailed;
}

void Handshake::queue(bool is_hello, const Greeting& greeting) {
  const std::vector<std::byte> payload = encode_greeting(greeting);
  FrameHeader header;
  header.kind = is_hello ? FrameKind::kHello : FrameKind::kWelcome;
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  out_.resize(kFrameHeaderBytes);
  encode_header(header, std::span<std::byte, kFrameHeaderBytes>(out_.data(), kFrameHeaderBytes));
  out_.insert(out_.end(), payload.begin(), payload.end());
}

void Handshake::welcome(const Greeting& greeting) {
  answered_ = true;
  keeps_ = greeting.keeps;
  queue(false, greeting);
}

Handshake::HandshakeState Handshake::step(Instant now) {
  if (!failure_.is_ok()) return HandshakeState::kFailed;
  if (now >= deadline_) {
    return fail({Code::kTimeout, caller_ ? "no answer from " + to_string(endpoint_)
                                         : "a connection that never said who it is"});
  }
  if (connecting_) {
    pollfd look{fd_, POLLOUT, 0};
    if (::poll(&look, 1, 0) <= 0) return HandshakeState::kPending;
    if (Status status = connect_outcome(fd_, endpoint_); !status.is_ok()) {
      return fail(std::move(status));
    }
    connecting_ = false;
  }
  if (!flush()) return failure_.is_ok() ? HandshakeState::kPending : HandshakeState::kFailed;
  if (!caller_ && answered_) return HandshakeState::kReady;
  if (!read_greeting())
    return failure_.is_ok() ? HandshakeState::kPending : HandshakeState::kFailed;
  // A caller that gave up while this process was stopped has called again since.
  if (!caller_ && is_closed()) return fail({Code::kProtocolError, "the caller has hung up"});
  return caller_ ? HandshakeState::kReady : HandshakeState::kPending;
}

bool Handshake::is_closed() const {
  std::byte next{};
  const ssize_t got = ::recv(fd_, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool Handshake::flush() {
  while (!out_.empty()) {
    const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        fail({Code::kSystem, std::string("greeting not sent: ") + std::strerror(errno)});
      }
      return false;
    }
    out_.erase(out_.begin(), out_.begin() + sent);
  }
  return true;
}

// Reads exactly one frame, so that no byte of what follows is taken from the link.
bool Handshake::read_greeting() {
  if (peer_) return true;
  for (;;) {
    std::size_t want = kFrameHeaderBytes;
    if (in_.size() >= kFrameHeaderBytes) {
      auto header = comm::parse_header(
          std::span<const std::byte, kFrameHeaderBytes>(in_.data(), kFrameHeaderBytes));
      if (!header.is_ok()) return fail(header.status()), false;
      const FrameKind expected = caller_ ? FrameKind::kWelcome : FrameKind::kHello;
      if (header.value().kind != expected || header.value().payload_bytes > kMaxGreetingBytes) {
        return fail({Code::kProtocolError, "not a greeting"}), false;
      }
      want += header.value().payload_bytes;
      if (in_.size() == want) {
        auto greeting = parse_greeting(std::span(in_).subspan(kFrameHeaderBytes));
        if (!greeting.is_ok()) return fail(greeting.status()), false;
        peer_ = std::move(greeting).value();
        return true;
      }
    }
    std::byte chunk[kFrameHeaderBytes + kMaxGreetingBytes];
    const ssize_t count = ::recv(fd_, chunk, want - in_.size(), MSG_DONTWAIT);
    if (count == 0) {
      fail({Code::kProtocolError,
            "the other side closed the connection instead of greeting "
            "(another version of Holdfast, or not Holdfast)"});
      return false;
    }
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        fail({Code::kSystem, std::string("greeting not received: ") + std::strerror(errno)});
      }
      return false;
    }
    in_.insert(in_.end(), chunk, chunk + count);
  }
}

}  // namespace holdfast::runtime
