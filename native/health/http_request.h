// HTTP request: as much of HTTP/1.1 (RFC 9112) as a reader of metrics says: a request line,
// headers, no body. Pure and total: what comes from a socket may be anything.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::runtime {

// Request line and headers together. Prometheus sends some 300 bytes, browsers up to 2 KiB.
inline constexpr std::size_t kMaxRequestBytes = 8192;

struct HttpRequest {
  std::string method;
  std::string path;   // without the query
  std::string query;  // after the question mark
  std::string accept;
};

struct HttpParse {
  enum class ParseState { kIncomplete, kWhole, kBad };
  ParseState state = ParseState::kIncomplete;
  int status = 0;  // kBad: what to answer
  HttpRequest request;
};

// `bytes`: all that has come of one request so far.
HttpParse parse_request(std::string_view bytes);

}  // namespace holdfast::runtime
