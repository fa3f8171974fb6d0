// HTTP request: the part of HTTP/1.1 (RFC 9112) that a reader of metrics sends: a request line,
// headers, no body; and with POST a small body of a length that is told. The parser is pure and
// total, because a socket may bring any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::health {

// Limit of request line and headers. Prometheus sends some 300 bytes, browsers up to 2 KiB.
inline constexpr std::size_t kMaxRequestBytes = 8192;
// An action's few fields, one of them a reason that a person gives.
inline constexpr std::size_t kMaxBodyBytes = 4096;

struct HttpRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // after the question mark
  std::string accept;
  std::string authorization;  // parsed by who knows whom to let in
  std::string content_type;
  std::string body;    // of a POST
  std::string caller;  // address of the other end, which no request says of itself
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
