// Page stream: the bytes of one caller of pages, as they are or through TLS. It knows no HTTP, and
// never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "secure/tls_session.h"

namespace holdfast::health {

// One thread at a time.
class PageStream {
 public:
  // Owns the socket. `session`: a server's; nullopt: bytes go as they are.
  PageStream(int fd, std::optional<secure::TlsSession> session);
  ~PageStream();
  PageStream(const PageStream&) = delete;
  PageStream& operator=(const PageStream&) = delete;

  int fd() const { return fd_; }

  enum class CallerWord : std::uint8_t {
    kNothing,
    kBytes,
    kEnd  // also where the caller speaks no TLS 1.3: it is told so first
  };
  // Takes a few kilobytes of what has come, and adds what the caller said to `to`. A handshake is
  // carried on here.
  CallerWord hear(std::string& to);
  // Sends as much of `bytes` as the caller takes, and returns how much; nullopt: it has gone.
  std::optional<std::size_t> say(std::string_view bytes);
  // Says that nothing follows. True once all has been sent; false: some is held, or nobody is
  // there.
  bool say_end();
  // Whether something is to be sent as soon as there is room.
  bool holds() const { return session_ && !session_->outgoing().empty(); }

 private:
  bool flush();
  CallerWord hear_sealed(std::string_view bytes, std::string& to);

  const int fd_;
  std::optional<secure::TlsSession> session_;
};

}  // namespace holdfast::health
