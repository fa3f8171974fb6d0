// HTTP request: the part of HTTP/1.1 (RFC 9112) that a reader of metrics sends: a request line,
// headers, no body. The parser is pure and total, because a socket may bring any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::health {

// Limit of request line and headers. Prometheus sends some 300 bytes, browsers up to 2 KiB.
inline constexpr std::size_t kMaxRequestBytes = 8192;

struct HttpRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // after the question mark
  std::string accept;
  std::string authorization;  // parsed by who knows whom to let in
};

struct HttpParse {
  enum class ParseState { kIncomplete, kWhole, kBad };
  ParseState state = ParseState::kIncomplete;
  int status = 0;  // kBad: the HTTP status to answer
  HttpRequest request;
};

// `bytes`: everything received of one request so far.
HttpParse parse_request(std::string_view bytes);

}  // namespace holdfast::health
