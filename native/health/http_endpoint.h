// HTTP endpoint: serves a few pages on a thread of its own, so that they can be read while the rest
// of the process is stuck. It takes one request per connection, GET, HEAD or POST, as it is or by
// TLS; who may read or do what, the pages decide. Connections, bytes and time of a client are
// bounded; when there is no room, the oldest connection is closed, so that clients that send
// nothing keep others out only briefly. Why: docs/decisions/0051-pages-by-our-own-server.md
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "health/http_address.h"
#include "health/http_request.h"
#include "secure/tls_session.h"

namespace holdfast::health {

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::string allow = {};  // with status 405
  // Set: this is not the answer yet. It is asked for now and then, until it says it. The endpoint's
  // thread.
  std::function<std::optional<HttpResponse>()> later = {};
};

class HttpEndpoint {
 public:
  using Serve = std::function<HttpResponse(const HttpRequest&)>;

  // Listens and starts the thread; `serve` runs on it, must not wait for anything, and what it
  // refers to must live until stop(). `tls`: a server's; without it requests come as they are.
  // kSystem for a port that is in use.
  static Result<std::unique_ptr<HttpEndpoint>> start(
      const HttpAddress& address, Serve serve,
      std::optional<secure::TlsContext> tls = std::nullopt);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // "host:port" as it listens, with the real port; "https://host:port" with TLS. Any thread.
  const std::string& address() const { return address_; }
  // The address for other hosts: when the endpoint listens on all interfaces, `host` takes their
  // place.
  std::string reached_at(const std::string& host) const;
  // Closes all connections and ends the thread; a second call does nothing. Any thread but its own.
  void stop();

 private:
  struct Connection;
  HttpEndpoint(int listener, int interrupt, std::string address, Serve serve,
               std::optional<secure::TlsContext> tls);
  void run();
  void accept_callers(Instant now);
  Result<std::optional<secure::TlsSession>> sealed() const;
  Instant room_at() const;
  void make_room();
  void limit_answers();
  void read_from(Connection& connection, Instant now);
  void answer(Connection& connection, Instant now);
  void look_for_answers(Instant now);
  void begin_answer(Connection& connection, HttpResponse response, Instant now);
  void write_to(Connection& connection, Instant now);

  const int listener_;
  const int interrupt_;  // eventfd
  const std::string address_;
  const Serve serve_;
  const std::optional<secure::TlsContext> tls_;
  const MonotonicClock clock_;
  // Used by the thread only.
  std::vector<std::unique_ptr<Connection>> connections_;  // oldest first
  Instant accepts_again_{};  // later than now: no descriptors were left
  std::thread thread_;
};

}  // namespace holdfast::health
