#include "health/page_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/forks.h"

namespace holdfast::health {
namespace {

using secure::TlsState;

constexpr std::size_t kHeardBytes = 4096;
// Sealed at once: what the socket does not take of it lies here, besides the answer.
constexpr std::size_t kSealedBytes = 4 * secure::kMaxRecordBytes;

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// How much the socket took; nullopt: the caller has gone.
std::optional<std::size_t> send_some(int fd, std::string_view bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count =
        ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_wait()) break;
    if (count < 0) return std::nullopt;
    sent += static_cast<std::size_t>(count);
  }
  return sent;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

PageStream::PageStream(int fd, std::optional<secure::TlsSession> session)
    : fd_(fd), session_(std::move(session)) {}

PageStream::~PageStream() { close_unforked(fd_); }

PageStream::CallerWord PageStream::hear(std::string& to) {
  if (!flush()) return CallerWord::kEnd;
  std::array<char, kHeardBytes> bytes;
  const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && would_wait()) return CallerWord::kNothing;
  if (count <= 0) return CallerWord::kEnd;
  const std::string_view come(bytes.data(), static_cast<std::size_t>(count));
  if (session_) return hear_sealed(come, to);
  to += come;
  return CallerWord::kBytes;
}

PageStream::CallerWord PageStream::hear_sealed(std::string_view bytes, std::string& to) {
  session_->feed(std::as_bytes(std::span(bytes)));
  const auto said = session_->readable();
  to += as_text(said);
  const bool something = !said.empty();
  session_->consume(said.size());
  const bool there = flush();
  if (something) return CallerWord::kBytes;
  const bool ended = session_->state() == TlsState::kFailed;
  return there && !ended ? CallerWord::kNothing : CallerWord::kEnd;
}

std::optional<std::size_t> PageStream::say(std::string_view bytes) {
  if (!session_) return send_some(fd_, bytes);
  std::size_t taken = 0;
  while (flush()) {
    if (holds() || taken == bytes.size()) return taken;
    const std::string_view next = bytes.substr(taken, kSealedBytes);
    if (!session_->write(std::as_bytes(std::span(next))).is_ok()) return std::nullopt;
    taken += next.size();
  }
  return std::nullopt;
}

bool PageStream::say_end() {
  if (session_ && session_->state() == TlsState::kOpen) session_->close();
  if (!flush() || holds()) return false;
  // Unread bytes of the caller would make close() discard the answer (RFC 9112, 9.6).
  ::shutdown(fd_, SHUT_WR);
  return true;
}

// False: the caller has gone.
bool PageStream::flush() {
  if (!session_) return true;
  while (holds()) {
    const auto sent = send_some(fd_, as_text(session_->outgoing()));
    if (!sent) return false;
    if (*sent == 0) break;
    session_->sent(*sent);
  }
  return true;
}

}  // namespace holdfast::health
