#include "runtime/rendezvous/tls_seal.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace holdfast::runtime {
namespace {

using secure::TlsState;

// Read at once while hands are shaken, where nothing is known of the other side.
constexpr std::size_t kHandshakeReadBytes = 4096;
// Decrypted while it is in L2.
constexpr std::size_t kReadBytes = 128 * 1024;
// Sealed at once, as much as a frame: with less of it the other end sleeps between two pieces. What
// the socket does not take of it lies here.
constexpr std::size_t kMostAtOnce = 512 * 1024;

// errno for a session that has failed.
int error_of(const Status& failure) {
  return failure.code() == Code::kPeerLost ? ECONNRESET : EBADMSG;
}

}  // namespace

Result<secure::Secret> TlsSeal::export_key() const {
  const auto binding = session_.binding();
  if (!binding.is_ok()) return binding.status();
  return secure::Secret(binding.value());
}

Result<secure::Secret> TlsSeal::prove_lane(const secure::Secret& trunk) const {
  const auto binding = session_.binding();
  if (!binding.is_ok()) return binding.status();
  return secure::derive(trunk, "holdfast lane", binding.value());
}

Result<bool> TlsSeal::shake_hands(int fd) {
  while (session_.state() == TlsState::kHandshaking) {
    if (!flush(fd)) break;
    std::array<std::byte, kHandshakeReadBytes> bytes;
    const ssize_t count = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    if (count == 0) session_.feed_end();
    session_.feed(std::span(bytes).first(static_cast<std::size_t>(count)));
  }
  const bool drained = flush(fd);
  if (session_.state() == TlsState::kFailed) return papers_->explain(session_.failure(), false);
  if (!drained && errno != EAGAIN && errno != EWOULDBLOCK) {
    return papers_->explain(
        {Code::kSystem, std::string("handshake not sent: ") + std::strerror(errno)}, false);
  }
  return session_.state() == TlsState::kOpen;
}

Status TlsSeal::show_papers(Greeting& own) {
  auto shown = papers_->show(session_, own);
  if (!shown.is_ok()) return shown.status();
  own.papers = std::move(shown).value();
  return Status::ok();
}

Status TlsSeal::check_papers(const Greeting& theirs) { return papers_->check(session_, theirs); }

bool TlsSeal::flush(int fd) {
  while (holds()) {
    const auto bytes = session_.outgoing();
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    session_.sent(static_cast<std::size_t>(sent));
  }
  return true;
}

ssize_t TlsSeal::send(int fd, std::span<const iovec> parts) {
  if (!flush(fd)) return -1;
  const std::size_t taken = take(parts);
  if (!session_.failure().is_ok()) {
    errno = error_of(session_.failure());
    return -1;
  }
  // What goes wrong here is found by the next flush.
  flush(fd);
  return static_cast<ssize_t>(taken);
}

// Small parts, such as headers, share a record with what follows them.
std::size_t TlsSeal::take(std::span<const iovec> parts) {
  std::array<std::byte, secure::kMaxRecordBytes> record;
  std::size_t gathered = 0;
  std::size_t taken = 0;
  const auto seal = [&](std::span<const std::byte> bytes) {
    // A failure stays in the session, where send() finds it.
    [[maybe_unused]] const Status written = session_.write(bytes);
    taken += bytes.size();
  };
  for (const iovec& part : parts) {
    auto rest = std::span(static_cast<const std::byte*>(part.iov_base), part.iov_len);
    while (!rest.empty() && taken < kMostAtOnce) {
      std::size_t count = 0;
      if (gathered == 0 && rest.size() >= record.size()) {
        count = std::min(rest.size() / record.size() * record.size(), kMostAtOnce);
        seal(rest.first(count));
      } else {
        count = std::min(rest.size(), record.size() - gathered);
        std::memcpy(record.data() + gathered, rest.data(), count);
        gathered += count;
        if (gathered == record.size()) {
          seal(record);
          gathered = 0;
        }
      }
      rest = rest.subspan(count);
    }
  }
  if (gathered > 0) seal(std::span(record).first(gathered));
  return taken;
}

ssize_t TlsSeal::receive(int fd, std::span<const iovec> parts) {
  std::size_t done = 0;
  for (const iovec& part : parts) {
    std::span room(static_cast<std::byte*>(part.iov_base), part.iov_len);
    while (!room.empty()) {
      const secure::TlsFed fed = session_.feed(unfed_, room);
      unfed_ = unfed_.subspan(fed.taken);
      room = room.subspan(fed.read);
      done += fed.read;
      if (fed.read > 0) continue;
      if (done > 0) return static_cast<ssize_t>(done);
      if (const ssize_t come = look(fd); come <= 0) return come;
    }
  }
  return static_cast<ssize_t>(done);
}

// Reads the socket, as recv() does, and what the session came to once all is read.
ssize_t TlsSeal::look(int fd) {
  if (session_.state() == TlsState::kClosed) return 0;
  if (session_.state() == TlsState::kFailed) {
    errno = error_of(session_.failure());
    return -1;
  }
  if (!scratch_) scratch_ = std::make_unique_for_overwrite<std::byte[]>(kReadBytes);
  const ssize_t count = ::recv(fd, scratch_.get(), kReadBytes, MSG_DONTWAIT);
  if (count > 0) unfed_ = {scratch_.get(), static_cast<std::size_t>(count)};
  if (count != 0) return count;
  session_.feed_end();
  errno = error_of(session_.failure());
  return -1;
}

}  // namespace holdfast::runtime
