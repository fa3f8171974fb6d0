#include "runtime/coordinator/etcd/exchange.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/forks.h"

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

  Status send(std::string_view text) {
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

  Result<HttpAnswer> receive() {
    std::string bytes;
    std::array<char, kHttpReadBytes> part{};
    for (;;) {
      const ssize_t got = ::recv(number_, part.data(), part.size(), 0);
      if (got < 0 && errno == EAGAIN) {
        TRY(wait(POLLIN, "answer"));
        continue;
      }
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return broken("receive from");
      bytes.append(part.data(), static_cast<std::size_t>(got));
      HttpAnswer answer = parse_answer(bytes, got == 0);
      using State = HttpAnswer::AnswerState;
      if (answer.state == State::kBad) {
        return Status{Code::kProtocolError,
                      "what answers at " + to_string(post_.to) + " is no HTTP: " + answer.why};
      }
      if (answer.state == State::kWhole) return answer;
    }
  }

 private:
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
  TRY(connection.send(request_text(post)));
  return connection.receive();
}

}  // namespace holdfast::runtime
