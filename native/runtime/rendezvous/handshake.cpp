#include "runtime/rendezvous/handshake.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/forks.h"
#include "base/net/tcp_path.h"
#include "comm/transport/frame.h"

namespace holdfast::runtime {

using comm::FrameHeader;
using comm::FrameKind;
using comm::kFrameHeaderBytes;

namespace {

// A path of so long a round trip is not that of a local network: its connections are worth a trunk.
constexpr Duration kFarRoundTrip = std::chrono::milliseconds(1);

// An alert of TLS: a fatal failure of the handshake (RFC 8446, 6). It is all that a process without
// a secret is told; OpenSSL sends none to who does not speak TLS.
constexpr std::array<unsigned char, 7> kTlsAlert = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x28};

// How a caller's first record begins (RFC 8446, 4 and 5.1): a handshake in the version of TLS 1.0
// or 1.2, of at most 2^14 bytes, that begins with a ClientHello.
bool may_open_tls(std::span<const unsigned char> said) {
  constexpr std::array<std::pair<unsigned char, unsigned char>, 6> kFromTo = {
      {{0x16, 0x16}, {0x03, 0x03}, {0x01, 0x03}, {0x00, 0x40}, {0x00, 0xff}, {0x01, 0x01}}};
  for (std::size_t i = 0; i < std::min(said.size(), kFromTo.size()); ++i) {
    if (said[i] < kFromTo[i].first || said[i] > kFromTo[i].second) return false;
  }
  return true;
}

}  // namespace

Handshake::Handshake(int fd, const Endpoint& to, const Greeting& hello, Instant deadline,
                     std::unique_ptr<TlsSeal> seal)
    : fd_(fd),
      caller_(true),
      seal_(std::move(seal)),
      connecting_(true),
      endpoint_(to),
      hello_(hello),
      deadline_(deadline) {}

Handshake::Handshake(int fd, Instant deadline, std::shared_ptr<const Sealer> sealer)
    : fd_(fd), caller_(false), sealer_(std::move(sealer)), deadline_(deadline) {}

Handshake::~Handshake() { close_unforked(fd_); }

comm::Connection Handshake::take_connection() {
  return {std::exchange(fd_, -1), std::move(seal_), relayed_};
}

Handshake::HandshakeState Handshake::fail(Status why) {
  failure_ = std::move(why);
  return HandshakeState::kFailed;
}

// At once: a callee that has read the greeting must not answer it after it was itself answered.
void Handshake::withdraw() {
  withdrawn_ = true;
  ::shutdown(fd_, SHUT_RDWR);
  fail({Code::kAuthFailed, "the callee has called"});
}

void Handshake::queue(bool is_hello, Greeting greeting) {
  if (seal_ && greeting.papers.empty()) {
    if (Status shown = seal_->show_papers(greeting); !shown.is_ok()) {
      fail(std::move(shown));
      return;
    }
  }
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
  said_ = greeting;
  queue(false, greeting);
}

comm::TrunkTerms Handshake::terms() const {
  return caller_ ? comm::TrunkTerms{hello_.trunk, peer_->lanes}
                 : comm::TrunkTerms{peer_->trunk, said_.lanes};
}

// The kernel has measured the path by now, for the callee has answered.
void Handshake::say_hello() {
  const auto path = tcp_path(fd_);
  hello_.far = hello_.far || (path && Duration(path->round_trip_ns) >= kFarRoundTrip);
  if (seal_ && trunk_key_) {
    const auto proof = seal_->prove_lane(*trunk_key_);
    if (proof.is_ok())
      hello_.proof.assign(proof.value().bytes().begin(), proof.value().bytes().end());
  }
  queue(true, hello_);
}

Result<secure::Secret> Handshake::export_key() const {
  if (!seal_) return Status{Code::kUnsupported, "the connection is not sealed"};
  return seal_->export_key();
}

bool Handshake::has_proven_lane(const secure::Secret& trunk) const {
  if (!seal_) return false;
  const auto proof = seal_->prove_lane(trunk);
  return proof.is_ok() && secure::same_bytes(proof.value().bytes(), peer_->proof);
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
    // What a sealed one shows depends on the session.
    if (!seal_) say_hello();
  }
  const bool shakes = (sealer_ || seal_) && !sealed_;
  if (shakes && (!has_seal() || !shake_hands())) {
    return failure_.is_ok() ? HandshakeState::kPending : HandshakeState::kFailed;
  }
  if (!flush()) return failure_.is_ok() ? HandshakeState::kPending : HandshakeState::kFailed;
  if (!caller_ && answered_) return HandshakeState::kReady;
  if (!read_greeting())
    return failure_.is_ok() ? HandshakeState::kPending : HandshakeState::kFailed;
  // A caller that gave up while this process was stopped has called again since.
  if (!caller_ && is_closed()) return fail({Code::kProtocolError, "the caller has hung up"});
  return caller_ ? HandshakeState::kReady : HandshakeState::kPending;
}

// Strangers that say nothing, or nonsense, are not worth a session of TLS.
bool Handshake::has_seal() {
  if (seal_) return true;
  std::array<unsigned char, 6> said{};
  const ssize_t count = ::recv(fd_, said.data(), said.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (count <= 0) {
    fail({Code::kPeerLost, "the connection ended before the TLS handshake did"});
    return false;
  }
  if (!may_open_tls(std::span(said).first(static_cast<std::size_t>(count)))) {
    // What is left unread when a socket is closed has the kernel discard what was sent as well.
    std::array<unsigned char, 4096> unread;
    [[maybe_unused]] const ssize_t read = ::recv(fd_, unread.data(), unread.size(), MSG_DONTWAIT);
    turn_away({Code::kProtocolError,
               "no TLS session can be made with the other side: it speaks something else"});
    return false;
  }
  auto made = sealer_->answer();
  sealer_.reset();
  if (!made.is_ok()) return fail(made.status()), false;
  seal_ = std::move(made).value();
  return true;
}

void Handshake::turn_away(Status why) {
  if (!caller_) ::send(fd_, kTlsAlert.data(), kTlsAlert.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  fail(std::move(why));
}

bool Handshake::shake_hands() {
  const auto shaken = seal_->shake_hands(fd_);
  if (!shaken.is_ok()) {
    turn_away(shaken.status());
    return false;
  }
  sealed_ = shaken.value();
  if (sealed_ && caller_) say_hello();
  return sealed_ && failure_.is_ok();
}

ssize_t Handshake::send_some() {
  if (!seal_) return ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const iovec part{out_.data(), out_.size()};
  return seal_->send(fd_, {&part, 1});
}

ssize_t Handshake::receive_some(std::span<std::byte> room) {
  if (!seal_) return ::recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
  const iovec part{room.data(), room.size()};
  return seal_->receive(fd_, {&part, 1});
}

Status Handshake::broken(const std::string& what) const {
  if (seal_ && !seal_->failure().is_ok()) return seal_->failure();
  return {Code::kSystem, what + ": " + std::strerror(errno)};
}

bool Handshake::is_closed() const {
  std::byte next{};
  const ssize_t got = ::recv(fd_, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool Handshake::flush() {
  while (!out_.empty()) {
    const ssize_t sent = send_some();
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) fail(broken("greeting not sent"));
      return false;
    }
    out_.erase(out_.begin(), out_.begin() + sent);
  }
  if (!seal_ || seal_->flush(fd_)) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) fail(broken("greeting not sent"));
  return false;
}

// Who is not let in is told why: it has proven who it is as far as the seal asks.
bool Handshake::look_at_papers() {
  if (!seal_) return true;
  Status sound = seal_->check_papers(*peer_);
  if (sound.is_ok()) return true;
  if (!caller_) {
    queue(false, {peer_->to, peer_->from, {}, false, {}, refusal_papers(sound.message())});
    flush();
  }
  peer_.reset();
  fail(std::move(sound));
  return false;
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
        return look_at_papers();
      }
    }
    std::byte chunk[kFrameHeaderBytes + kMaxGreetingBytes];
    const ssize_t count = receive_some(std::span(chunk).first(want - in_.size()));
    if (count == 0) {
      const bool speaks_tls = !seal_ && !in_.empty() && in_[0] == std::byte{kTlsAlert[0]};
      fail({Code::kProtocolError,
            std::string("the other side closed the connection instead of greeting (") +
                (speaks_tls ? "it has a secret: set option secret_file here, too"
                            : "another version of Holdfast, or not Holdfast") +
                ")"});
      return false;
    }
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) fail(broken("greeting not received"));
      return false;
    }
    in_.insert(in_.end(), chunk, chunk + count);
  }
}

}  // namespace holdfast::runtime
