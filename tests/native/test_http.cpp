// The HTTP endpoint: its parser on any bytes, and itself under clients that mean no good.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "health/http_endpoint.h"
#include "health/json.h"

namespace holdfast::runtime {
namespace {

using State = health::HttpParse::ParseState;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("a request is whole when its empty line has come") {
  const std::string text =
      "GET /metrics?name=a HTTP/1.1\r\nHost: x\r\naCCept:  text/plain \r\n\r\n";
  for (std::size_t n = 0; n < text.size(); ++n) {
    CHECK(health::parse_request(text.substr(0, n)).state == State::kIncomplete);
  }
  const health::HttpParse parse = health::parse_request(text);
  REQUIRE(parse.state == State::kWhole);
  CHECK(parse.request.method == "GET");
  CHECK(parse.request.path == "/metrics");
  CHECK(parse.request.query == "name=a");
  CHECK(parse.request.accept == "text/plain");
  CHECK(health::parse_request("GET / HTTP/1.0\n\n").state == State::kWhole);
}

TEST_CASE("a request that posts is whole when its body has come") {
  const std::string head =
      "POST /admin/kick HTTP/1.1\r\nContent-type: application/json\r\ncontent-length: 4096\r\n\r\n";
  const std::string text = head + std::string(health::kMaxBodyBytes, 'x');
  for (std::size_t n = 0; n < text.size(); ++n) {
    CHECK(health::parse_request(text.substr(0, n)).state == State::kIncomplete);
  }
  const health::HttpParse parse = health::parse_request(text + "GET / HTTP/1.1");
  REQUIRE(parse.state == State::kWhole);
  CHECK(parse.request.body == std::string(health::kMaxBodyBytes, 'x'));
  CHECK(parse.request.content_type == "application/json");
  CHECK(health::parse_request("POST / HTTP/1.1\r\n\r\n").state == State::kWhole);
}

TEST_CASE("what is no request is refused as soon as that is clear") {
  const auto status = [](std::string_view text) {
    const health::HttpParse parse = health::parse_request(text);
    return parse.state == State::kBad ? parse.status : 0;
  };
  CHECK(status("\x16\x03\x01") == 400);  // TLS
  CHECK(status("get / HTTP/1.1\r\n\r\n") == 400);
  CHECK(status(std::string(17, 'A')) == 400);
  CHECK(status("GET\r\n\r\n") == 400);
  CHECK(status("GET  HTTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET http://x/ HTTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET /\x01 HTTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET / FTP/1.1\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/2.0\r\n\r\n") == 505);
  CHECK(status("GET / HTTP/1.1\r\nno colon\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/1.1\r\n: x\r\n\r\n") == 400);
  CHECK(status("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n") == 413);
  CHECK(status("POST / HTTP/1.1\r\nContent-Length: 4097\r\n\r\n") == 413);
  CHECK(status("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n") == 413);
  CHECK(status("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n") == 400);
  CHECK(status("POST / HTTP/1.1\r\nContent-Length:\r\n\r\n") == 400);
  CHECK(status("POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}") == 400);
  CHECK(status("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 413);
  CHECK(status("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 413);
  CHECK(status("GET / HTTP/1.1\r\nX: " + std::string(health::kMaxRequestBytes, 'a')) == 431);
  CHECK(status("GET /" + std::string(health::kMaxRequestBytes, 'a')) == 431);
}

TEST_CASE("addresses without a host are loopback, and nonsense is refused with what is accepted") {
  CHECK(health::parse_http_address("9400").value().host == "127.0.0.1");
  CHECK(health::parse_http_address(":9400").value().port == 9400);
  CHECK(health::parse_http_address("localhost:0").value().host == "127.0.0.1");
  CHECK(health::parse_http_address("0.0.0.0:1").value().host == "0.0.0.0");
  CHECK(health::parse_http_address("[::1]:80").value().host == "::1");
  for (const auto* text : {"", ":", "a:b", "example.org:80", "1.2.3.4", "1.2.3.4:65536", "::1:80",
                           "127.0.0.1:80x", "127.0.0.1:-1", "[::1", "[::1]"}) {
    const auto parsed = health::parse_http_address(text);
    REQUIRE_MESSAGE(!parsed.is_ok(), text);
    CHECK(parsed.status().code() == Code::kConfigError);
    CHECK(parsed.status().message().find("accepted") != std::string::npos);
  }
}

TEST_CASE("strings in json are valid whatever they hold") {
  CHECK(health::json_text("a\"b\\c\n\x01") == "\"a\\\"b\\\\c\\u000a\\u0001\"");
  CHECK(health::json_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") ==
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  CHECK(health::json_text("\xc3\xa9\xff\xed\xa0\x80\xc0\x80\xf0\x9f") ==
        "\"\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

// ---- a client
// ------------------------------------------------------------------------------------

class Client {
 public:
  explicit Client(const health::HttpEndpoint& endpoint) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string& address = endpoint.address();
    to.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~Client() { ::close(fd_); }
  Client(Client&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  Client& operator=(Client&&) = delete;

  bool connected() const { return connected_; }
  void say(const std::string& text) const {
    [[maybe_unused]] const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  // All that comes until the other side hangs up, or ten seconds have passed.
  std::string hear() const {
    std::string all;
    char bytes[4096];
    pollfd waits{fd_, POLLIN, 0};
    while (::poll(&waits, 1, 10'000) > 0) {
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
      if (n <= 0) return all;
      all.append(bytes, static_cast<std::size_t>(n));
    }
    return all + "(and then nothing)";
  }
  std::string ask(const std::string& text) const {
    say(text);
    return hear();
  }

 private:
  int fd_;
  bool connected_ = false;
};

health::HttpResponse echo(const health::HttpRequest& request) {
  if (request.path == "/large") return {200, "text/plain", std::string(3'000'000, 'x')};
  if (request.path == "/post") {
    health::HttpResponse later;
    later.later = [text = request.method + request.body + request.caller,
                   looks = 0]() mutable -> std::optional<health::HttpResponse> {
      if (++looks < 3) return std::nullopt;
      return health::HttpResponse{200, "text/plain", text};
    };
    return later;
  }
  if (request.path != "/") return {404, "text/plain", ""};
  return {200, "text/plain", "hello\n"};
}

std::unique_ptr<health::HttpEndpoint> an_endpoint() {
  return health::HttpEndpoint::start({"127.0.0.1", 0}, echo).value();
}

const std::string kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_CASE("pages are answered, HEAD without a body, other methods and paths refused") {
  const auto endpoint = an_endpoint();
  const std::string answer = Client(*endpoint).ask(kGet);
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.find("Content-Length: 6\r\n") != std::string::npos);
  CHECK(answer.ends_with("\r\n\r\nhello\n"));
  CHECK(Client(*endpoint).ask("HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
  CHECK(Client(*endpoint).ask("PUT / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
  CHECK(Client(*endpoint).ask("GET /no HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
  CHECK(Client(*endpoint).ask("\xde\xad\xbe\xef\r\n\r\n").starts_with("HTTP/1.1 400 "));
  CHECK(Client(*endpoint).ask("GET /" + std::string(20'000, 'a')).starts_with("HTTP/1.1 431 "));
}

TEST_CASE("an answer that another thread makes comes when it is there, and delays nobody") {
  const auto endpoint = an_endpoint();
  const Client waits(*endpoint);
  waits.say("POST /post HTTP/1.1\r\nContent-Length: 2\r\n\r\n{");
  CHECK(Client(*endpoint).ask(kGet).ends_with("hello\n"));
  CHECK(waits.ask("}").ends_with("\r\n\r\nPOST{}127.0.0.1"));
  const Client gone(*endpoint);
  gone.say("POST /post HTTP/1.1\r\n\r\n");
  CHECK(Client(*endpoint).ask(kGet).ends_with("hello\n"));
}

TEST_CASE("a large page comes whole to a client that reads slowly") {
  const auto endpoint = an_endpoint();
  const Client slow(*endpoint);
  slow.say("GET /large HTTP/1.1\r\n\r\n");
  // Others are served meanwhile.
  CHECK(Client(*endpoint).ask(kGet).ends_with("hello\n"));
  const std::string answer = slow.hear();
  CHECK(answer.size() - answer.find("\r\n\r\n") - 4 == 3'000'000);
}

TEST_CASE("a port that is in use is named") {
  const auto endpoint = an_endpoint();
  const std::string& address = endpoint->address();
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const auto second = health::HttpEndpoint::start({"127.0.0.1", port}, echo);
  REQUIRE_FALSE(second.is_ok());
  CHECK(second.status().message().find("option http") != std::string::npos);
  CHECK(second.status().message().find(std::to_string(port)) != std::string::npos);
}

TEST_CASE("clients that say nothing keep nobody out, and are hung up on") {
  const auto endpoint = an_endpoint();
  std::vector<Client> silent;
  for (int i = 0; i < 600; ++i) {
    silent.emplace_back(*endpoint);
    REQUIRE(silent.back().connected());
    silent.back().say(i % 2 == 0 ? "" : "GET / HT");
  }
  const auto began = std::chrono::steady_clock::now();
  CHECK(Client(*endpoint).ask(kGet).ends_with("hello\n"));
  CHECK(std::chrono::steady_clock::now() - began < seconds(5));
  CHECK(silent.front().hear().empty());  // it made room
  CHECK(silent.back().hear().empty());   // its time passed
}

TEST_CASE("a thousand connections at once, some with garbage, and each good one is answered") {
  const auto endpoint = an_endpoint();
  std::atomic<int> good{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Client> held;
      for (int i = 0; i < 250; ++i) {
        held.emplace_back(*endpoint);
        held.back().say(std::string(static_cast<std::size_t>(i), static_cast<char>(i * 37 + t)));
        if (i % 50 == 0 && Client(*endpoint).ask(kGet).ends_with("hello\n")) ++good;
      }
    });
  }
  threads.clear();
  CHECK(good == 20);
  CHECK(Client(*endpoint).ask(kGet).ends_with("hello\n"));
}

TEST_CASE("it goes on after the process had no descriptors left") {
  const auto endpoint = an_endpoint();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Client waits(*endpoint);
  const Client next(*endpoint);
  const int last = ::dup(0);
  ::close(last);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(last);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  waits.say(kGet);
  next.say(kGet);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(waits.hear().ends_with("hello\n"));
  CHECK(next.hear().ends_with("hello\n"));
}

TEST_CASE("stop ends the thread with connections open, twice if need be") {
  auto endpoint = an_endpoint();
  const Client open(*endpoint);
  CHECK(Client(*endpoint).ask(kGet).ends_with("hello\n"));
  endpoint->stop();
  endpoint->stop();
  CHECK(open.hear().empty());
  endpoint.reset();
}

}  // namespace
}  // namespace holdfast::runtime
