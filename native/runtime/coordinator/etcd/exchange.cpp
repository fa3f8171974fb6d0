#include "runtime/coordinator/etcd/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/forks.h"
#include "runtime/rendezvous/sealer.h"
#include "secure/tls_session.h"

namespace holdfast::runtime {
namespace {

constexpr std::size_t kHttpReadBytes = 16384;

class HttpConnection {
 public:
  HttpConnection(int number, const HttpPost& post, const Clock& clock, Instant deadline)
      : number_(number), post_(post), clock_(clock), deadline_(deadline) {}
  ~HttpConnection() { close_unforked(number_); }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  Status connect() {
    TRY(wait(POLLOUT, "connection"));
    return connect_outcome(number_, post_.to);
  }

  Status shake_hands() {
    if (post_.tls == nullptr) return Status::ok();
    secure::TlsTerms terms;
    terms.now = unix_now();
    terms.hosts = {post_.certified};
    auto session = secure::TlsSession::client(*post_.tls, std::move(terms));
    if (!session.is_ok()) return session.status();
    session_.emplace(std::move(session).value());
    TRY(send_sealed());
    while (session_->state() == secure::TlsState::kHandshaking) {
      TRY(hear());
      TRY(send_sealed());
    }
    return unbroken();
  }

  Status send(std::string_view text) {
    if (!session_) return send_plain(text);
    TRY(session_->write(std::as_bytes(std::span(text))));
    return send_sealed();
  }

  Result<HttpAnswer> receive() {
    for (;;) {
      TRY(hear());
      TRY(unbroken());
      HttpAnswer answer = parse_answer(heard_, ended_);
      using State = HttpAnswer::AnswerState;
      if (answer.state == State::kBad) {
        return Status{Code::kProtocolError,
                      "what answers at " + to_string(post_.to) + " is no HTTP: " + answer.why};
      }
      if (answer.state == State::kWhole) return answer;
    }
  }

 private:
  Status send_plain(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(number_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN) {
        TRY(wait(POLLOUT, "room for a request"));
      } else if (errno != EINTR) {
        return broken("send to");
      }
    }
    return Status::ok();
  }

  Status send_sealed() {
    while (!session_->outgoing().empty()) {
      const auto bytes = session_->outgoing();
      TRY(send_plain({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
      session_->sent(bytes.size());
    }
    return Status::ok();
  }

  // Waits for bytes, or for their end.
  Status hear() {
    std::array<std::byte, kHttpReadBytes> part{};
    ssize_t got = -1;
    while (got < 0) {
      got = ::recv(number_, part.data(), part.size(), 0);
      if (got < 0 && errno == EAGAIN) {
        TRY(wait(POLLIN, "answer"));
      } else if (got < 0 && errno != EINTR) {
        return broken("receive from");
      }
    }
    ended_ = got == 0;
    std::span<const std::byte> bytes = std::span(part).first(static_cast<std::size_t>(got));
    if (session_) {
      if (ended_) session_->feed_end();
      session_->feed(bytes);
      bytes = session_->readable();
      ended_ = session_->state() == secure::TlsState::kClosed;
    }
    heard_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (session_) session_->consume(bytes.size());
    return Status::ok();
  }

  // Whether the session has failed: for good, if somebody is not believed.
  Status unbroken() const {
    if (!session_ || session_->failure().is_ok()) return Status::ok();
    const Status& why = session_->failure();
    const bool cut = why.code() == Code::kPeerLost;
    return {cut ? Code::kSystem : Code::kProtocolError,
            "no TLS with " + to_string(post_.to) + ": " + why.message() +
                (cut ? "" : " (--etcd-ca, --etcd-cert, --etcd-key)")};
  }

  Status broken(const char* what) const {
    return {Code::kSystem, std::string("cannot ") + what + " " + to_string(post_.to) + ": " +
                               std::strerror(errno)};
  }

  // Errors of the connection count as ready: the next call tells them.
  Status wait(short events, const char* what) const {
    for (;;) {
      const Duration left = deadline_ - clock_.now();
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(left).count();
      if (wait <= 0) {
        return {Code::kTimeout,
                std::string("no ") + what + " from " + to_string(post_.to) + " in time"};
      }
      pollfd look{number_, events, 0};
      constexpr decltype(wait) kLongest = 60'000;
      const int ready = ::poll(&look, 1, static_cast<int>(std::min(wait, kLongest)));
      if (ready > 0) return Status::ok();
      if (ready < 0 && errno != EINTR) return broken("wait for");
    }
  }

  int number_;
  const HttpPost& post_;
  const Clock& clock_;
  Instant deadline_;
  std::optional<secure::TlsSession> session_;
  std::string heard_;
  bool ended_ = false;
};

std::string request_text(const HttpPost& post) {
  return "POST " + post.path + " HTTP/1.1\r\nHost: " + post.host +
         "\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: " +
         std::to_string(post.body.size()) + "\r\n\r\n" + post.body;
}

}  // namespace

Result<HttpAnswer> exchange(const HttpPost& post, const Clock& clock, Instant deadline) {
  auto number = start_connect(post.to);
  if (!number.is_ok()) return number.status();
  HttpConnection connection(number.value(), post, clock, deadline);
  TRY(connection.connect());
  TRY(connection.shake_hands());
  TRY(connection.send(request_text(post)));
  return connection.receive();
}

}  // namespace holdfast::runtime
