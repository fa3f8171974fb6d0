#include "health/http_endpoint.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/forks.h"
#include "base/net/socket.h"
#include "health/page_stream.h"

namespace holdfast::health {
namespace {

// Silent connections cost little, so there may be many: a client that floods the endpoint must open
// this many within kGrace to keep others out.
constexpr std::size_t kMaxConnections = 256;
// Enough for a scraper, a person and a few more; each answer may be a flight record of some
// megabytes.
constexpr std::size_t kMaxAnswers = 16;
// A connection younger than this is not closed to make room.
constexpr Duration kGrace = std::chrono::milliseconds(500);
constexpr std::size_t kAcceptsPerTurn = 64;
// Time for a client to send its request, to take the answer, and to close after it.
constexpr Duration kRequestTime = std::chrono::seconds(5);
constexpr Duration kAnswerTime = std::chrono::seconds(10);
constexpr Duration kHangUpTime = std::chrono::seconds(1);
// Between two looks whether another thread has made an answer, and how long it may take.
constexpr Duration kLookTime = std::chrono::milliseconds(5);
constexpr Duration kLaterTime = std::chrono::seconds(10);
constexpr Duration kDescriptorPause = std::chrono::milliseconds(100);
// The thread's nice value: collectives come first.
constexpr int kNice = 10;

constexpr std::string_view kHttps = "https://";

std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

std::string to_text(const HttpResponse& response, bool head) {
  const std::string_view why = reason(response.status);
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " ";
  text += why;
  text += "\r\nContent-Type: " + response.type +
          "\r\nContent-Length: " + std::to_string(response.body.size()) +
          "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
          "Connection: close\r\n";
  if (response.status == 405) {
    text += "Allow: " + (response.allow.empty() ? "GET, HEAD" : response.allow) + "\r\n";
  }
  if (response.status == 401) {
    text +=
        "WWW-Authenticate: Bearer realm=\"holdfast\"\r\n"
        "WWW-Authenticate: Basic realm=\"holdfast\", charset=\"UTF-8\"\r\n";
  }
  text += "\r\n";
  return head ? text : text + response.body;
}

}  // namespace

struct HttpEndpoint::Connection {
  enum class ConnectionStage { kRequest, kLater, kAnswer, kHangUp, kOver };
  PageStream stream;
  const Instant opened;
  Instant deadline;
  ConnectionStage stage = ConnectionStage::kRequest;
  std::string text = {};    // the request, then the answer
  std::size_t written = 0;  // bytes of the answer
  std::function<std::optional<HttpResponse>()> later = {};
  bool head = false;  // only the answer's head is wanted

  Connection(int descriptor, std::optional<secure::TlsSession> session, Instant now)
      : stream(descriptor, std::move(session)), opened(now), deadline(now + kRequestTime) {}

  short awaited() const {
    if (stage == ConnectionStage::kAnswer) return POLLOUT;
    if (stage == ConnectionStage::kLater) return 0;
    return static_cast<short>(stream.holds() ? POLLIN | POLLOUT : POLLIN);
  }
};

Result<std::unique_ptr<HttpEndpoint>> HttpEndpoint::start(const HttpAddress& address, Serve serve,
                                                          std::optional<secure::TlsContext> tls) {
  auto listener = runtime::listen_on(address.host, address.port);
  if (!listener.is_ok()) {
    return Status{listener.status().code(), "option http: " + listener.status().message()};
  }
  const auto port = runtime::local_port(listener.value());
  const int interrupt = open_unforked([] { return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  if (!port.is_ok() || interrupt < 0) {
    close_unforked(listener.value());
    if (!port.is_ok()) return port.status();
    return Status{Code::kSystem, "no file descriptors left (see ulimit -n)"};
  }
  return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(
      listener.value(), interrupt,
      std::string(tls ? kHttps : "") + to_text(HttpAddress{address.host, port.value()}),
      std::move(serve), std::move(tls)));
}

HttpEndpoint::HttpEndpoint(int listener, int interrupt, std::string address, Serve serve,
                           std::optional<secure::TlsContext> tls)
    : listener_(listener),
      interrupt_(interrupt),
      address_(std::move(address)),
      serve_(std::move(serve)),
      tls_(std::move(tls)),
      thread_([this] { run(); }) {}

HttpEndpoint::~HttpEndpoint() {
  stop();
  close_unforked(listener_);
  close_unforked(interrupt_);
}

void HttpEndpoint::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(interrupt_, &one, sizeof one);
  thread_.join();
}

std::string HttpEndpoint::reached_at(const std::string& host) const {
  const std::size_t begin = tls_ ? kHttps.size() : 0;
  const std::size_t colon = address_.rfind(':');
  const std::string own = address_.substr(begin, colon - begin);
  const bool everywhere = own == "0.0.0.0" || own == "[::]";
  if (!everywhere) return address_;
  return address_.substr(0, begin) +
         (host.find(':') == std::string::npos ? host : "[" + host + "]") + address_.substr(colon);
}

void HttpEndpoint::run() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "holdfast-http");
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
  std::vector<pollfd> polled;
  for (;;) {
    Instant now = clock_.now();
    std::erase_if(connections_, [now](const auto& c) {
      return c->stage == Connection::ConnectionStage::kOver || now >= c->deadline;
    });
    const Instant accepts_at = std::max(accepts_again_, room_at());
    const bool accepts = now >= accepts_at;
    polled.assign(
        {{interrupt_, POLLIN, 0}, {listener_, static_cast<short>(accepts ? POLLIN : 0), 0}});
    Instant wake = accepts ? Instant{Duration::max()} : accepts_at;
    for (const auto& c : connections_) {
      polled.push_back({c->stream.fd(), c->awaited(), 0});
      const bool later = c->stage == Connection::ConnectionStage::kLater;
      wake = std::min(wake, later ? now + kLookTime : c->deadline);
    }
    constexpr Duration kLongest = std::chrono::minutes(1);
    const Duration left = std::clamp(wake - now, Duration::zero(), kLongest);
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(left);
    if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) < 0) continue;
    if (polled[0].revents != 0) break;
    now = clock_.now();
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (polled[i + 2].revents == 0) continue;
      Connection& c = *connections_[i];
      if (c.stage == Connection::ConnectionStage::kLater) {
        c.stage = Connection::ConnectionStage::kOver;
        continue;
      }
      c.stage == Connection::ConnectionStage::kAnswer ? write_to(c, now) : read_from(c, now);
    }
    look_for_answers(now);
    if (polled[1].revents != 0) accept_callers(now);
  }
  connections_.clear();
}

void HttpEndpoint::accept_callers(Instant now) {
  for (std::size_t i = 0; i < kAcceptsPerTurn && now >= room_at(); ++i) {
    const int fd = runtime::accept_one(listener_);
    if (fd < 0) {
      const bool none_left = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
      if (none_left) accepts_again_ = now + kDescriptorPause;
      return;
    }
    if (connections_.size() >= kMaxConnections) make_room();
    auto session = sealed();
    if (!session.is_ok()) {
      close_unforked(fd);
      continue;
    }
    connections_.push_back(std::make_unique<Connection>(fd, std::move(session).value(), now));
    // Most clients have sent their request by now; the next ones may take this connection's place.
    read_from(*connections_.back(), now);
  }
}

// A caller's session; none where requests come as they are.
Result<std::optional<secure::TlsSession>> HttpEndpoint::sealed() const {
  if (!tls_) return std::optional<secure::TlsSession>();
  auto session = secure::TlsSession::server(*tls_, {});
  if (!session.is_ok()) return session.status();
  return std::optional(std::move(session).value());
}

Instant HttpEndpoint::room_at() const {
  if (connections_.size() < kMaxConnections) return {};
  return connections_.front()->opened + kGrace;
}

// A connection that is not being answered is closed first.
void HttpEndpoint::make_room() {
  const auto silent = std::find_if(connections_.begin(), connections_.end(), [](const auto& c) {
    return c->stage != Connection::ConnectionStage::kAnswer;
  });
  connections_.erase(silent == connections_.end() ? connections_.begin() : silent);
}

void HttpEndpoint::read_from(Connection& c, Instant now) {
  using enum PageStream::CallerWord;
  std::string ignored;
  const bool hangs_up = c.stage == Connection::ConnectionStage::kHangUp;
  const PageStream::CallerWord heard = c.stream.hear(hangs_up ? ignored : c.text);
  if (heard == kEnd) c.stage = Connection::ConnectionStage::kOver;
  if (heard == kBytes && !hangs_up) answer(c, now);
}

void HttpEndpoint::answer(Connection& c, Instant now) {
  HttpParse parse = parse_request(c.text);
  if (parse.state == HttpParse::ParseState::kIncomplete) return;
  HttpResponse response;
  const std::string& method = parse.request.method;
  c.head = method == "HEAD";
  if (parse.state == HttpParse::ParseState::kBad) {
    response.status = parse.status;
  } else if (!c.head && method != "GET" && method != "POST") {
    response.status = 405;
  } else {
    parse.request.caller = runtime::peer_address(c.stream.fd());
    response = serve_(parse.request);
  }
  if (!response.later) return begin_answer(c, std::move(response), now);
  c.later = std::move(response.later);
  c.stage = Connection::ConnectionStage::kLater;
  c.deadline = now + 2 * kLaterTime;
}

void HttpEndpoint::look_for_answers(Instant now) {
  for (const auto& c : connections_) {
    if (c->stage != Connection::ConnectionStage::kLater) continue;
    auto response = c->later();
    const bool late = now + kLaterTime >= c->deadline;
    if (!response && !late) continue;
    if (!response) {
      response = HttpResponse{503, "text/plain; charset=utf-8",
                              "this process has not answered for " +
                                  std::to_string(kLaterTime / std::chrono::seconds(1)) +
                                  " s; what was asked for may still be done\n"};
    }
    begin_answer(*c, std::move(*response), now);
  }
}

void HttpEndpoint::begin_answer(Connection& c, HttpResponse response, Instant now) {
  c.later = {};
  if (response.status >= 400 && response.body.empty()) {
    response.body = std::string(reason(response.status)) + "\n";
  }
  limit_answers();
  c.text = to_text(response, c.head);
  c.stage = Connection::ConnectionStage::kAnswer;
  c.deadline = now + kAnswerTime;
  write_to(c, now);
}

// Answers that clients do not read hold memory, so the oldest is dropped.
void HttpEndpoint::limit_answers() {
  Connection* oldest = nullptr;
  std::size_t answers = 0;
  for (const auto& c : connections_) {
    if (c->stage != Connection::ConnectionStage::kAnswer) continue;
    if (answers++ == 0) oldest = c.get();
  }
  if (answers < kMaxAnswers) return;
  oldest->stage = Connection::ConnectionStage::kOver;
  oldest->text = {};
}

void HttpEndpoint::write_to(Connection& c, Instant now) {
  const auto taken = c.stream.say(std::string_view(c.text).substr(c.written));
  if (!taken) {
    c.stage = Connection::ConnectionStage::kOver;
    return;
  }
  c.written += *taken;
  if (c.written < c.text.size() || !c.stream.say_end()) return;
  c.stage = Connection::ConnectionStage::kHangUp;
  c.deadline = now + kHangUpTime;
  c.text.clear();
}

}  // namespace holdfast::health
